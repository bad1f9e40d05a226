// The explorer: two solvers on one target, side by side, on one slider.

const AHEAD = 2.6; // the first view shows this many times the quicker run, so that its path is seen

optik.Explorer = class {
  constructor(data, find) {
    this.data = data;
    this.find = find;
    this.state = { index: -1, t: 0, playing: false, whole: false, solvers: ["", ""] };
    this.view = null;
    for (const key of ["slider", "play", "zoom", "timeline"]) this[key] = find(key);
    this.sides = [0, 1].map((side) => ({
      canvas: find(`arm-${side}`), pick: find(`pick-${side}`), badge: find(`badge-${side}`),
      story: find(`story-${side}`), joints: find(`joints-${side}`), numbers: find(`numbers-${side}`),
    }));
    this.slider.addEventListener("input", () => {
      this.pause();
      this.seek(Number(this.slider.value));
    });
    this.play.addEventListener("click", () => (this.state.playing ? this.pause() : this.start()));
    this.zoom.addEventListener("click", () => {
      this.state.whole = !this.state.whole;
      this.layout();
    });
    this.sides.forEach((side, i) => {
      side.pick.addEventListener("change", () => {
        this.state.solvers[i] = side.pick.value;
        this.layout();
      });
      this.orbit(side.canvas);
    });
    const scrub = (event) => {
      if (!event.buttons && event.type !== "pointerdown") return;
      const px = event.clientX - this.timeline.getBoundingClientRect().left;
      this.pause();
      this.seek(Math.round(Math.max(0, Math.min(this.last, this.toTime(px)))));
    };
    this.timeline.addEventListener("pointerdown", scrub);
    this.timeline.addEventListener("pointermove", scrub);
  }

  get case() {
    return this.data.cases[this.state.index];
  }

  get robot() {
    return this.data.robots[this.case.robot];
  }

  /** The two runs on show, unpacked when they are first needed. */
  get runs() {
    return this.state.solvers.map((name) => {
      const run = this.case.runs[name];
      if (!run.tips) {
        for (const key of ["frames", "q", "wanted"]) run[key] = optik.unpack(run[key]);
        run.tips = [];
      }
      return run;
    });
  }

  /** Shows a case, at the moment that tells most. */
  show(index) {
    this.pause();
    this.state.index = index;
    const names = Object.keys(this.case.runs);
    this.state.solvers = [...this.case.pair];
    this.state.whole = false;
    this.sides.forEach((side, i) => {
      side.pick.innerHTML = names.map((n) => `<option value="${optik.escape(n)}"${n === this.case.pair[i] ? " selected" : ""}>${optik.escape(n)}</option>`).join("");
    });
    const runs = this.runs, bounds = optik.bounds(this.robot, runs, this.case.targets);
    this.view = {
      bounds,
      azimuth: optik.bestAzimuth(this.robot, runs, this.case.targets),
      elevation: 0.26,
      jointRadii: optik.jointRadii(this.robot, optik.posesAt(this.robot, runs[0], 0)),
    };
    this.refit();
    this.state.t = optik.tellingMoment(runs);
    this.layout();
  }

  /** Lets both arms, all along their paths, just fill the frame. */
  refit() {
    const canvas = this.sides[0].canvas;
    Object.assign(this.view, optik.fit(
      this.view.bounds, this.view.azimuth, this.view.elevation,
      canvas.clientWidth || 480, canvas.clientHeight || 400,
    ));
  }

  /** Lays out everything that depends on the case, the solvers or the width, then redraws. */
  layout() {
    const runs = this.runs, longest = Math.max(...runs.map((r) => r.steps), 1);
    const solved = runs.filter((r) => r.solved).map((r) => r.steps);
    const short = Math.min(longest, Math.max(12, Math.ceil(AHEAD * Math.min(...solved, longest))));
    this.last = this.state.whole ? longest : short;
    this.slider.max = String(this.last);
    this.zoom.hidden = short === longest;
    this.zoom.textContent = this.state.whole ? `first ${short} iterations` : `all ${longest} iterations`;
    this.sides.forEach((side, i) => {
      const run = runs[i];
      side.badge.textContent = run.solved ? `solved in ${run.iterations}` : run.status;
      side.badge.className = run.solved ? "badge good" : "badge bad";
      side.story.textContent = run.story;
    });
    this.timelines(runs);
    this.seek(Math.min(this.state.t, this.last));
  }

  timelines(runs) {
    const width = this.timeline.clientWidth || 1000, left = 76, right = 18;
    const x = { scale: "linear", min: 0, max: this.last, label: "iteration" };
    const toX = optik.scale("linear", 0, this.last, left, width - right);
    this.toTime = toX.invert;
    this.toX = toX;
    const series = (key) => runs.map((r, i) => ({
      x: r[key].map((_, k) => k), y: r[key], colour: `var(--side${i})`, end: r[key].length - 1,
    }));
    const errors = (key, tolerance, label, bottom) => {
      const seen = runs.flatMap((r) => r[key].slice(0, this.last + 1)).filter((v) => v > 0);
      if (!seen.length) return "";
      const low = Math.min(tolerance / 10, Math.max(Math.min(...seen), tolerance / 100));
      const y = { scale: "log", min: 10 ** Math.floor(Math.log10(low)), max: 10 ** Math.ceil(Math.log10(Math.max(...seen))), label };
      return optik.lineChart({ width, height: 112 + bottom, left, right, top: 18, bottom, x, y, series: series(key), rules: [{ y: tolerance, text: "tolerance" }] }).svg;
    };
    const names = this.robot.joints.map((j) => j.name);
    const all = names.map((_, j) => j);
    const met = all.filter((j) => runs.some((r) => r.limits.some((state) => state[j] !== ".")));
    const rows = names.length <= 9 ? all : met;
    const strip = (i) => rows.length
      ? `<h4><i style="background:var(--side${i})"></i>${optik.escape(this.state.solvers[i])}</h4>` +
        optik.limitStrip({ width, left, right, rows, names, run: runs[i], x, colour: `var(--side${i})` })
      : "";
    const { position, rotation } = this.case.tolerance;
    this.timeline.innerHTML =
      errors("position", position, "position error [m]", 8) +
      errors("rotation", rotation, "rotation error [rad]", 36) +
      `<h3>Which joint sits on which limit, and when</h3>${strip(0)}${strip(1)}` +
      (rows.length < names.length ? `<p class="hint">The other ${names.length - rows.length} joints never meet a limit.</p>` : "") +
      `<div class="cursor" id="cursor"></div>`;
    this.cursor = this.timeline.lastElementChild;
  }

  /** Moves everything to time t; whole numbers are iterations. */
  seek(t) {
    this.state.t = t;
    const runs = this.runs, shown = Math.round(t);
    this.slider.value = String(shown);
    this.cursor.style.left = `${this.toX(t)}px`;
    this.find("iteration").textContent = String(shown);
    this.sides.forEach((side, i) => {
      this.paint(i);
      const run = runs[i], k = Math.min(shown, run.steps);
      side.numbers.innerHTML = optik.stepNumbers(run, k);
      side.joints.innerHTML = optik.jointPanel(this.robot, run, k, this.case.robot);
    });
  }

  paint(i) {
    const canvas = this.sides[i].canvas;
    const width = canvas.clientWidth || 480, height = canvas.clientHeight || 400;
    const dense = globalThis.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
      canvas.width = Math.round(width * dense);
      canvas.height = Math.round(height * dense);
    }
    const ctx = canvas.getContext("2d");
    ctx.setTransform(dense, 0, 0, dense, 0, 0);
    const palette = optik.palette();
    optik.paintArm(ctx, {
      robot: this.robot, run: this.runs[i], targets: this.case.targets, t: this.state.t,
      view: this.view, width, height, palette, accent: palette.sides[i],
    });
  }

  start() {
    if (this.state.t >= this.last - 1e-9) this.seek(0);
    this.state.playing = true;
    this.play.textContent = "❚❚";
    this.play.setAttribute("aria-label", "pause");
    const rate = Math.max(4, Math.min(12, this.last / 6)); // iterations a second
    let before = null;
    const tick = (now) => {
      if (!this.state.playing) return;
      if (before !== null) {
        const t = Math.min(this.last, this.state.t + (rate * Math.min(100, now - before)) / 1000);
        this.seek(t);
        if (t >= this.last) return this.pause();
      }
      before = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    this.state.playing = false;
    this.play.textContent = "▶";
    this.play.setAttribute("aria-label", "play");
  }

  /** Dragging turns both arms, ctrl or pinch with the wheel zooms, a double click starts over. */
  orbit(canvas) {
    const again = () => [0, 1].forEach((i) => this.paint(i));
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      if (!event.buttons) return;
      this.view.azimuth -= 0.008 * event.movementX;
      this.view.elevation = Math.max(-0.2, Math.min(1.5, this.view.elevation + 0.008 * event.movementY));
      again();
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      this.view.distance *= Math.exp(0.002 * (event.deltaY || event.deltaX));
      again();
    }, { passive: false });
    canvas.addEventListener("dblclick", () => {
      this.view.elevation = 0.26;
      this.view.azimuth = optik.bestAzimuth(this.robot, this.runs, this.case.targets);
      this.refit();
      again();
    });
  }
};

/**
 * The iteration to open with: among those at which the solving run has a joint on a limit, the one
 * at which its step gets on most against the other's; the end where it never meets a limit.
 */
optik.tellingMoment = function (runs) {
  const solved = runs.find((r) => r.solved) ?? runs[1];
  const other = runs.find((r) => r !== solved) ?? solved;
  let best = Infinity, most = 0;
  for (let k = 1; k < solved.steps; k++) {
    const ahead = solved.kept[k] - (other.kept[Math.min(k, other.steps)] ?? 0);
    if (/[LU]/i.test(solved.limits[k]) && ahead > most) [best, most] = [k, ahead];
  }
  return best;
};

// ---------------------------------------------------------------- the step, joint by joint

/** Errors at iteration k, and what its step promises and keeps. */
optik.stepNumbers = function (run, k) {
  const bar = (share) => `<span class="meter"><i style="width:${Math.max(0, Math.min(100, 100 * (share ?? 0)))}%"></i></span>`;
  const kept = run.kept[k];
  const on = [...run.limits[k]].filter((c) => c !== ".").length;
  return (
    `<dl><dt>position error</dt><dd>${optik.length(run.position[k])}</dd>` +
    `<dt>rotation error</dt><dd>${optik.angle(run.rotation[k])}</dd>` +
    `<dt>joints on a limit</dt><dd>${on}</dd></dl>` +
    `<dl class="step"><dt>unlimited step would remove</dt><dd>${bar(run.promised[k])}${optik.percent(run.promised[k])}</dd>` +
    `<dt>step taken removes</dt><dd>${kept === null ? (k >= run.steps ? "stopped" : "–") : bar(kept) + optik.percent(kept)}</dd></dl>`
  );
};

/** Every joint: where it stands in its range, the step it was asked for, the step it took. */
optik.jointPanel = function (robot, run, k) {
  const n = robot.joints.length, letters = run.limits[k];
  const at = (array, i, j) => array[i * n + j];
  const taken = robot.joints.map((_, j) => (k < run.steps ? at(run.q, k + 1, j) - at(run.q, k, j) : 0));
  const wanted = robot.joints.map((_, j) => at(run.wanted, k, j));
  const most = Math.max(1e-12, ...taken.map(Math.abs), ...wanted.map(Math.abs));
  const width = 250, name = 74, range = [80, 158], step = [170, 246], row = 19;
  const shown = robot.joints.map((_, j) => j).filter((j) => n <= 9 || letters[j] !== "." || Math.abs(taken[j]) > 0.2 * most).slice(0, 12);
  const middle = (step[0] + step[1]) / 2, half = (step[1] - step[0]) / 2;
  const out = [`<svg class="joints" viewBox="0 0 ${width} ${shown.length * row + 22}" role="img" aria-label="joint ranges and steps">`];
  out.push(`<text class="tick" x="${(range[0] + range[1]) / 2}" y="11" text-anchor="middle">range</text><text class="tick" x="${middle}" y="11" text-anchor="middle">step</text>`);
  shown.forEach((j, i) => {
    const joint = robot.joints[j], y = 20 + i * row, mid = y + row / 2 - 1;
    const letter = letters[j].toUpperCase();
    const kind = letter === "L" ? "lower" : letter === "U" ? "upper" : "";
    out.push(`<text class="tick${kind ? " strong" : ""}" x="${name}" y="${mid + 4}" text-anchor="end">${optik.escape(optik.shortName(joint.name))}</text>`);
    if (joint.lower !== null && joint.upper !== null) {
      const where = (at(run.q, k, j) - joint.lower) / (joint.upper - joint.lower || 1);
      const px = near(range[0] + Math.max(0, Math.min(1, where)) * (range[1] - range[0]));
      out.push(`<rect class="track" x="${range[0]}" y="${mid - 2}" width="${range[1] - range[0]}" height="4" rx="2"/>`);
      out.push(`<rect class="stop lower${kind === "lower" ? "" : " off"}" x="${range[0] - 2}" y="${mid - 6}" width="3" height="12" rx="1"/><rect class="stop upper${kind === "upper" ? "" : " off"}" x="${range[1] - 1}" y="${mid - 6}" width="3" height="12" rx="1"/>`);
      out.push(`<circle class="knob ${kind}" cx="${px}" cy="${mid}" r="4.4"/>`);
    } else out.push(`<line class="endless" x1="${range[0]}" x2="${range[1]}" y1="${mid}" y2="${mid}"/>`);
    const bar = (value, klass, h) => {
      const w = (Math.abs(value) / most) * half;
      if (w < 0.4) return "";
      return `<rect class="${klass}" x="${near(value < 0 ? middle - w : middle)}" y="${mid - h / 2}" width="${near(w)}" height="${h}"/>`;
    };
    // What the limit cuts off is drawn in the limit's colour.
    const blocked = (letter === "U" && wanted[j] > 0) || (letter === "L" && wanted[j] < 0);
    out.push(bar(wanted[j], `wanted ${blocked ? kind : ""}`, 12), bar(taken[j], "taken", 6));
    out.push(`<line class="axis" x1="${middle}" x2="${middle}" y1="${mid - 8}" y2="${mid + 8}"/>`);
  });
  out.push("</svg>");
  if (shown.length < n) out.push(`<p class="hint">${n - shown.length} joints that move little and sit on no limit are left out.</p>`);
  return out.join("");
};

/** A joint's name cut to what fits, keeping its end, which tells siblings apart. */
optik.shortName = (name) => (name.length <= 11 ? name : `…${name.slice(-10)}`);
