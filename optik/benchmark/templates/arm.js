// The arm in 3-D on a plain canvas: capsules and convex polyhedra, lit, sorted back to front.
// A robot is what report_scene.py wrote; a run holds the poses of its bodies at every iteration.

// ---------------------------------------------------------------- poses

/** Pose of body i at frame k of unpacked frames (seven numbers a body). */
optik.bodyPose = function (frames, bodies, k, i) {
  const o = 7 * (k * bodies + i);
  return {
    p: [frames[o], frames[o + 1], frames[o + 2]],
    q: [frames[o + 3], frames[o + 4], frames[o + 5], frames[o + 6]],
  };
};

/** Poses of all bodies at a time t between iterations 0 and steps; whole numbers are exact. */
optik.posesAt = function (robot, run, t) {
  const k = Math.max(0, Math.min(run.steps, t));
  const low = Math.floor(k), share = k - low;
  const poses = [];
  for (let i = 0; i < robot.bodies; i++) {
    const a = optik.bodyPose(run.frames, robot.bodies, low, i);
    if (share > 0) {
      const b = optik.bodyPose(run.frames, robot.bodies, low + 1, i);
      const sign = a.q.reduce((s, v, j) => s + v * b.q[j], 0) < 0 ? -1 : 1;
      const q = a.q.map((v, j) => v + (sign * b.q[j] - v) * share);
      const size = Math.hypot(...q);
      poses.push({ p: optik.mix(a.p, b.p, share), q: q.map((v) => v / size) });
    } else poses.push(a);
  }
  return poses;
};

optik.ORIGIN = { p: [0, 0, 0], q: [1, 0, 0, 0] };
optik.poseOf = (poses, body) => (body < 0 ? optik.ORIGIN : poses[body]);

/** Pose of the controlled frame. */
optik.toolPose = function (robot, poses) {
  const body = optik.poseOf(poses, robot.tool.body);
  return { p: optik.place(body, robot.tool.position), q: optik.product(body.q, robot.tool.quaternion) };
};

/** Every shape in the world: capsules by their two ends, hulls by their corners. */
optik.worldShapes = (robot, poses) =>
  robot.shapes.map((shape) => {
    const pose = optik.poseOf(poses, shape.body);
    return shape.kind === "capsule"
      ? { shape, a: optik.place(pose, shape.from), b: optik.place(pose, shape.to) }
      : { shape, points: shape.points.map((p) => optik.place(pose, p)) };
  });

/** Anchors of the joints in the world. */
optik.anchors = (robot, poses) =>
  robot.joints.map((j) => optik.place(optik.poseOf(poses, j.body), j.anchor));

// ---------------------------------------------------------------- camera

const FOCAL = 1.9; // of the shorter side: a calm, nearly parallel perspective

/** A camera that looks at a point from an azimuth and elevation [rad] and a distance [m]. */
optik.camera = function ({ centre, azimuth, elevation, distance, width, height }) {
  const c = Math.cos(elevation);
  const back = [c * Math.cos(azimuth), c * Math.sin(azimuth), Math.sin(elevation)];
  const forward = optik.mul(back, -1);
  const right = [-Math.sin(azimuth), Math.cos(azimuth), 0];
  const up = optik.cross(right, forward);
  const eye = optik.add(centre, optik.mul(back, distance));
  const focal = FOCAL * Math.min(width, height);
  return {
    eye, right, up, forward,
    toCamera: (v) => [optik.dot(v, right), optik.dot(v, up), optik.dot(v, forward)],
    /** Screen x, y [px], depth [m] and pixels a metre at that depth. */
    project(p) {
      const d = optik.sub(p, eye);
      const z = Math.max(1e-3, optik.dot(d, forward));
      const s = focal / z;
      return { x: width / 2 + s * optik.dot(d, right), y: height / 2 - s * optik.dot(d, up), z, s };
    },
  };
};

/** What a case shows: points of both arms along their paths and of the targets, and the floor. */
optik.bounds = function (robot, runs, targets) {
  const points = targets.map((t) => t.position);
  for (const run of runs) {
    for (let k = 0; k <= run.steps; k++) points.push(optik.toolPose(robot, optik.posesAt(robot, run, k)).p);
    for (const k of [0, run.steps >> 2, run.steps >> 1, run.steps])
      for (const s of optik.worldShapes(robot, optik.posesAt(robot, run, k)))
        points.push(...(s.points ?? [s.a, s.b]));
  }
  const low = [0, 1, 2].map((i) => Math.min(...points.map((p) => p[i])));
  const high = [0, 1, 2].map((i) => Math.max(...points.map((p) => p[i])));
  const centre = optik.mix(low, high, 0.5);
  const radius = Math.max(...points.map((p) => optik.norm(optik.sub(p, centre))));
  return { points, centre, radius, floor: Math.min(0, low[2]) };
};

/** The centre and distance from which all points just fill a frame of the given shape. */
optik.fit = function (bounds, azimuth, elevation, width, height) {
  let centre = bounds.centre, distance = 4 * bounds.radius;
  for (let round = 0; round < 4; round++) {
    const camera = optik.camera({ centre, azimuth, elevation, distance, width, height });
    const seen = bounds.points.map((p) => camera.project(p));
    const span = (key) => {
      const values = seen.map((p) => p[key]);
      return [Math.min(...values), Math.max(...values)];
    };
    const [x0, x1] = span("x"), [y0, y1] = span("y");
    const metres = distance / (FOCAL * Math.min(width, height));
    centre = optik.add(centre, optik.add(
      optik.mul(camera.right, metres * ((x0 + x1) / 2 - width / 2)),
      optik.mul(camera.up, metres * (height / 2 - (y0 + y1) / 2)),
    ));
    distance *= Math.max((x1 - x0) / (0.74 * width), (y1 - y0) / (0.8 * height));
  }
  return { centre, distance };
};

/** The azimuth from which the tools' gaps to the target and the arms are seen most broadly. */
optik.bestAzimuth = function (robot, runs, targets) {
  const ends = runs.map((run) => optik.posesAt(robot, run, run.steps));
  const gaps = ends.map((poses) => optik.sub(optik.toolPose(robot, poses).p, targets[0].position));
  const links = ends.flatMap((poses) => {
    const a = optik.anchors(robot, poses);
    return a.slice(1).map((p, i) => optik.sub(p, a[i]));
  });
  let best = 0.6, most = -1;
  for (let i = 0; i < 48; i++) {
    const azimuth = (i * Math.PI) / 24;
    const right = [-Math.sin(azimuth), Math.cos(azimuth), 0];
    const seen = (v) => Math.hypot(optik.dot(v, right), 0.9 * v[2]);
    const score = gaps.reduce((s, v) => s + 3 * seen(v), 0) + links.reduce((s, v) => s + seen(v), 0);
    if (score > most + 1e-9) [best, most] = [azimuth, score];
  }
  return best;
};

// ---------------------------------------------------------------- light

const LIGHT = optik.unit([-0.45, 0.75, -0.62]); // in camera axes: from the upper left, in front
const STOPS = [-1, -0.8, -0.5, -0.15, 0.2, 0.55, 0.85, 1];

optik.parseColour = function (text) {
  const hex = text.trim().replace("#", "");
  const full = hex.length === 3 ? hex.replace(/./g, "$&$&") : hex;
  return [0, 2, 4].map((i) => parseInt(full.slice(i, i + 2), 16));
};

optik.shade = function (colour, normal, alpha = 1) {
  const diffuse = Math.max(0, optik.dot(normal, LIGHT));
  const light = 0.56 + 0.46 * diffuse, gloss = 46 * diffuse ** 18;
  const [r, g, b] = colour.map((v) => Math.round(Math.min(255, v * light + gloss)));
  return alpha < 1 ? `rgba(${r},${g},${b},${alpha})` : `rgb(${r},${g},${b})`;
};

// ---------------------------------------------------------------- painting

function capsulePath(ctx, a, b) {
  const turn = Math.atan2(b.y - a.y, b.x - a.x);
  ctx.beginPath();
  ctx.arc(a.x, a.y, a.r, turn + Math.PI / 2, turn - Math.PI / 2);
  ctx.arc(b.x, b.y, b.r, turn - Math.PI / 2, turn + Math.PI / 2);
  ctx.closePath();
}

function sphere(ctx, at, colour, alpha) {
  const g = ctx.createRadialGradient(
    at.x - 0.38 * at.r, at.y - 0.5 * at.r, 0.05 * at.r, at.x, at.y, at.r,
  );
  for (const u of [0, 0.35, 0.7, 1]) {
    const n = optik.unit([-0.45 * (1 - u) + 0.6 * u, 0.75 * (1 - u) - 0.5 * u, -(1 - 0.75 * u)]);
    g.addColorStop(u, optik.shade(colour, n, alpha));
  }
  ctx.fillStyle = g;
  ctx.beginPath();
  ctx.arc(at.x, at.y, at.r, 0, 2 * Math.PI);
  ctx.fill();
}

/** Items of one capsule, cut into pieces so that crossing links sort rightly. */
function capsuleItems(items, camera, a, b, radius, colour, alpha) {
  const along = optik.sub(b, a), size = optik.norm(along);
  const pieces = Math.max(1, Math.min(8, Math.ceil(size / (3 * radius))));
  const axis = optik.unit(camera.toCamera(along));
  for (let i = 0; i < pieces; i++) {
    const ends = [i / pieces, (i + 1) / pieces].map((t) => {
      const p = camera.project(optik.mix(a, b, t));
      return { ...p, r: Math.max(0.6, radius * p.s) };
    });
    items.push({ z: (ends[0].z + ends[1].z) / 2, draw: (ctx) => tube(ctx, ends[0], ends[1], axis, colour, alpha) });
  }
}

function tube(ctx, a, b, axis, colour, alpha) {
  const dx = b.x - a.x, dy = b.y - a.y, flat = Math.hypot(dx, dy);
  if (flat < 0.35 * Math.max(a.r, b.r)) return sphere(ctx, a.z < b.z ? a : b, colour, alpha);
  // Across the tube the normal turns from one side over the front to the other.
  const side = [-dy / flat, dx / flat];
  const P = optik.unit([side[0], -side[1], 0]);
  let F = optik.cross(P, axis);
  if (F[2] > 0) F = optik.mul(F, -1);
  const mx = (a.x + b.x) / 2, my = (a.y + b.y) / 2, r = Math.max(a.r, b.r);
  const g = ctx.createLinearGradient(
    mx - side[0] * r, my - side[1] * r, mx + side[0] * r, my + side[1] * r,
  );
  for (const u of STOPS) {
    const n = optik.add(optik.mul(P, u), optik.mul(F, Math.sqrt(1 - u * u)));
    g.addColorStop((u + 1) / 2, optik.shade(colour, n, alpha));
  }
  ctx.fillStyle = g;
  capsulePath(ctx, a, b);
  ctx.fill();
}

function hullItems(items, camera, points, faces, colour, alpha) {
  const middle = points.reduce((s, p) => optik.add(s, optik.mul(p, 1 / points.length)), [0, 0, 0]);
  for (const face of faces) {
    const corners = face.map((i) => points[i]);
    const centre = corners.reduce((s, p) => optik.add(s, optik.mul(p, 1 / corners.length)), [0, 0, 0]);
    let normal = optik.unit(
      optik.cross(optik.sub(corners[1], corners[0]), optik.sub(corners[2], corners[0])),
    );
    if (optik.dot(normal, optik.sub(centre, middle)) < 0) normal = optik.mul(normal, -1);
    if (optik.dot(normal, optik.sub(camera.eye, centre)) <= 0) continue;
    const flat = corners.map((p) => camera.project(p));
    const fill = optik.shade(colour, camera.toCamera(normal), alpha);
    items.push({
      z: camera.project(centre).z,
      draw(ctx) {
        ctx.beginPath();
        flat.forEach((p, i) => (i ? ctx.lineTo(p.x, p.y) : ctx.moveTo(p.x, p.y)));
        ctx.closePath();
        ctx.fillStyle = ctx.strokeStyle = fill;
        ctx.lineWidth = 0.7;
        ctx.fill();
        ctx.stroke();
      },
    });
  }
}

function shapeItems(items, camera, world, colour, alpha = 1) {
  if (world.points) hullItems(items, camera, world.points, world.shape.faces, colour, alpha);
  else capsuleItems(items, camera, world.a, world.b, world.shape.radius, colour, alpha);
}

function ground(ctx, camera, view, worlds, palette) {
  const { centre, radius, floor } = view.bounds;
  const pitch = [0.02, 0.05, 0.1, 0.2, 0.5, 1].find((p) => p >= radius / 6) ?? 2;
  const reach = 1.35 * radius, base = [Math.round(centre[0] / pitch), Math.round(centre[1] / pitch)];
  const lines = Math.ceil(reach / pitch);
  ctx.lineWidth = 1;
  ctx.strokeStyle = palette.grid;
  const pieces = 10;
  for (const flip of [false, true])
    for (let i = -lines; i <= lines; i++) {
      const off = i * pitch, half = Math.sqrt(Math.max(0, reach * reach - off * off));
      const fixed = ((flip ? base[1] : base[0]) + i) * pitch;
      const middle = (flip ? base[0] : base[1]) * pitch;
      for (let j = 0; j < pieces; j++) {
        const ends = [j, j + 1].map((n) => half * ((2 * n) / pieces - 1));
        const away = Math.hypot(off, (ends[0] + ends[1]) / 2) / reach;
        ctx.globalAlpha = Math.max(0, 1 - away * away);
        polyline(ctx, ends.map((v) =>
          camera.project(flip ? [middle + v, fixed, floor] : [fixed, middle + v, floor]),
        ));
      }
    }
  // The shadow: every shape dropped along a slanted light, filled as one region.
  const drop = (p) => [p[0] + 0.25 * (p[2] - floor), p[1] - 0.18 * (p[2] - floor), floor];
  for (const [grow, alpha] of [[1.5, 0.05], [1.2, 0.05], [0.9, 0.07]]) {
    ctx.globalAlpha = alpha * palette.shadow;
    ctx.fillStyle = "#000";
    ctx.beginPath();
    for (const w of worlds) {
      if (w.points) continue;
      const a = camera.project(drop(w.a)), b = camera.project(drop(w.b));
      const ra = w.shape.radius * a.s * grow, rb = w.shape.radius * b.s * grow;
      const turn = Math.atan2(b.y - a.y, b.x - a.x);
      ctx.moveTo(a.x + ra * Math.cos(turn + Math.PI / 2), a.y + ra * Math.sin(turn + Math.PI / 2));
      ctx.arc(a.x, a.y, ra, turn + Math.PI / 2, turn - Math.PI / 2);
      ctx.arc(b.x, b.y, rb, turn - Math.PI / 2, turn + Math.PI / 2);
      ctx.closePath();
    }
    ctx.fill("nonzero");
  }
  ctx.globalAlpha = 1;
}

/** Where a joint's ball is drawn as thick as the links that meet there. */
optik.jointRadii = function (robot, poses) {
  const worlds = optik.worldShapes(robot, poses).filter((w) => !w.points);
  return optik.anchors(robot, poses).map((p) => {
    let best = 0.03, near = Infinity;
    for (const w of worlds) {
      const along = optik.sub(w.b, w.a), size = optik.dot(along, along);
      const t = size > 0 ? Math.max(0, Math.min(1, optik.dot(optik.sub(p, w.a), along) / size)) : 0;
      const d = optik.norm(optik.sub(p, optik.mix(w.a, w.b, t))) - w.shape.radius;
      if (d < near - 1e-6) [best, near] = [w.shape.radius, d];
    }
    return best;
  });
};

function polyline(ctx, points) {
  ctx.beginPath();
  points.forEach((p, i) => (i ? ctx.lineTo(p.x, p.y) : ctx.moveTo(p.x, p.y)));
  ctx.stroke();
}

function arrow(ctx, from, to, colour, width) {
  const turn = Math.atan2(to.y - from.y, to.x - from.x), size = 3.2 * width;
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = width;
  polyline(ctx, [from, to]);
  ctx.beginPath();
  ctx.moveTo(to.x + size * Math.cos(turn), to.y + size * Math.sin(turn));
  for (const s of [2.5, -2.5])
    ctx.lineTo(to.x + 0.9 * size * Math.cos(turn + s), to.y + 0.9 * size * Math.sin(turn + s));
  ctx.fill();
}

/** The target: a ghost of the tool where its pose is known, else a dot, and its axes. */
function targetItems(items, camera, robot, target, view, palette) {
  const size = 0.16 * view.bounds.radius;
  if (target.quaternion) {
    const pose = { p: target.position, q: target.quaternion };
    // The body that carries the tool, put where the tool would be on target.
    const t = robot.tool, inverse = [t.quaternion[0], ...t.quaternion.slice(1).map((v) => -v)];
    const turn = optik.product(pose.q, inverse);
    const body = { q: turn, p: optik.sub(pose.p, optik.rotate(turn, t.position)) };
    for (const shape of robot.shapes)
      if (shape.body === t.body) {
        const world = shape.kind === "capsule"
          ? { shape, a: optik.place(body, shape.from), b: optik.place(body, shape.to) }
          : { shape, points: shape.points.map((p) => optik.place(body, p)) };
        shapeItems(items, camera, world, palette.target, 0.42);
      }
  }
  const centre = camera.project(target.position);
  const tips = target.quaternion
    ? [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map((e) => optik.rotate(target.quaternion, e))
    : target.axis ? [target.axis[1]] : [];
  items.push({
    z: centre.z - size,
    draw(ctx) {
      const colour = palette.targetLine;
      tips.forEach((v) => {
        const tip = camera.project(optik.add(target.position, optik.mul(v, size)));
        arrow(ctx, centre, tip, colour, 1.5);
      });
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.6;
      ctx.beginPath();
      ctx.arc(centre.x, centre.y, 6, 0, 2 * Math.PI);
      ctx.stroke();
    },
  });
}

/** Paints one arm at time t. */
optik.paintArm = function (ctx, { robot, run, targets, t, view, width, height, palette, accent }) {
  const camera = optik.camera({ ...view, width, height });
  const poses = optik.posesAt(robot, run, t);
  const worlds = optik.worldShapes(robot, poses);
  const limits = run.limits[Math.min(run.steps, Math.round(t))];
  ctx.clearRect(0, 0, width, height);
  ctx.lineCap = ctx.lineJoin = "round";
  ground(ctx, camera, view, worlds, palette);

  const items = [];
  for (const world of worlds)
    shapeItems(items, camera, world, optik.mix(palette.dark, palette.light, world.shape.tone));
  const anchors = optik.anchors(robot, poses);
  const labels = [];
  anchors.forEach((p, i) => {
    const letter = limits[i];
    if (letter === ".") return;
    const at = camera.project(p), r = Math.max(6, 1.28 * view.jointRadii[i] * at.s);
    const colour = letter.toUpperCase() === "L" ? palette.lower : palette.upper;
    items.push({ z: at.z - 1.3 * view.jointRadii[i], draw: (c) => sphere(c, { ...at, r }, colour, 1) });
    labels.push({ ...at, r, text: robot.joints[i].name, colour, letter });
  });
  for (const target of targets) targetItems(items, camera, robot, target, view, palette);

  const tool = optik.toolPose(robot, poses);
  const here = camera.project(tool.p);
  const size = 0.13 * view.bounds.radius;
  items.push({
    z: here.z - size,
    draw(c) {
      for (const e of [[1, 0, 0], [0, 1, 0], [0, 0, 1]]) {
        const tip = camera.project(optik.add(tool.p, optik.mul(optik.rotate(tool.q, e), size)));
        arrow(c, here, tip, accent, 1.8);
      }
    },
  });
  items.sort((a, b) => b.z - a.z);
  for (const item of items) item.draw(ctx);

  trail(ctx, camera, robot, run, t, here, accent);
  const goal = camera.project(targets[0].position);
  if (Math.hypot(goal.x - here.x, goal.y - here.y) > 3) {
    ctx.strokeStyle = accent;
    ctx.lineWidth = 1.4;
    ctx.setLineDash([2, 5]);
    polyline(ctx, [here, goal]);
    ctx.setLineDash([]);
  }
  limitLabels(ctx, labels, width, palette);
};

function trail(ctx, camera, robot, run, t, here, accent) {
  const upto = Math.min(run.steps, Math.floor(t));
  ctx.strokeStyle = ctx.fillStyle = accent;
  ctx.lineWidth = 1.6;
  const dots = [];
  for (let k = 0; k <= upto; k++) {
    if (!run.tips[k]) run.tips[k] = optik.toolPose(robot, optik.posesAt(robot, run, k)).p;
    dots.push(camera.project(run.tips[k]));
  }
  ctx.globalAlpha = 0.75;
  polyline(ctx, [...dots, here]);
  for (const p of dots) {
    ctx.beginPath();
    ctx.arc(p.x, p.y, 2.1, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.globalAlpha = 1;
}

function limitLabels(ctx, labels, width, palette) {
  ctx.font = "600 12px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  const taken = [];
  for (const label of labels.sort((a, b) => a.y - b.y)) {
    const text = `${label.text} ${label.letter.toUpperCase() === "L" ? "at lower" : "at upper"} limit`;
    const w = ctx.measureText(text).width + 16;
    const fits = label.x + label.r + 12 + w < width;
    const right = fits && (label.x > 0.45 * width || label.x - label.r - 12 - w < 0);
    const x = right ? label.x + label.r + 12 : label.x - label.r - 12 - w;
    let y = label.y - label.r;
    while (taken.some((other) => Math.abs(other - y) < 24)) y += 4;
    taken.push(y);
    ctx.strokeStyle = palette.css(label.colour);
    ctx.lineWidth = 1.4;
    polyline(ctx, [{ x: label.x, y: label.y }, { x: right ? x : x + w, y }]);
    ctx.fillStyle = palette.paper;
    ctx.beginPath();
    ctx.roundRect(x, y - 11, w, 22, 11);
    ctx.fill();
    ctx.stroke();
    ctx.fillStyle = palette.ink;
    ctx.fillText(text, x + 8, y + 0.5);
  }
}
