"use strict";
// One namespace for the whole page.  Everything that computes is a plain function of its arguments,
// so that it runs without a browser; only explorer.js, charts.js and tables.js touch the document.
const optik = (globalThis.optik = {});

// ---------------------------------------------------------------- packed numbers

/** Decodes base64 into little-endian float32 numbers. */
optik.unpack = function (text) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const value = new Int16Array(128).fill(-1);
  for (let i = 0; i < 64; i++) value[digits.charCodeAt(i)] = i;
  const length = text.replace(/=+$/, "").length;
  const bytes = new Uint8Array(Math.floor((length * 3) / 4));
  let held = 0, bits = 0, at = 0;
  for (let i = 0; i < length; i++) {
    held = (held << 6) | value[text.charCodeAt(i)];
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[at++] = (held >> bits) & 255;
    }
  }
  const view = new DataView(bytes.buffer);
  const out = new Float32Array(bytes.length >> 2);
  for (let i = 0; i < out.length; i++) out[i] = view.getFloat32(4 * i, true);
  return out;
};

// ---------------------------------------------------------------- vectors

optik.add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
optik.sub = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
optik.mul = (a, s) => [a[0] * s, a[1] * s, a[2] * s];
optik.dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
optik.cross = (a, b) => [
  a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0],
];
optik.norm = (a) => Math.hypot(a[0], a[1], a[2]);
optik.unit = (a) => optik.mul(a, 1 / (optik.norm(a) || 1));
optik.mix = (a, b, t) => [
  a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t,
];

/** Turns vector v by the unit quaternion q (w x y z). */
optik.rotate = function (q, v) {
  const [w, x, y, z] = q;
  const tx = 2 * (y * v[2] - z * v[1]), ty = 2 * (z * v[0] - x * v[2]), tz = 2 * (x * v[1] - y * v[0]);
  return [
    v[0] + w * tx + y * tz - z * ty, v[1] + w * ty + z * tx - x * tz, v[2] + w * tz + x * ty - y * tx,
  ];
};

/** Product of two quaternions (w x y z). */
optik.product = (a, b) => [
  a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
  a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
  a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
  a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
];

/** A pose {p, q} applied to a point. */
optik.place = (pose, point) => optik.add(pose.p, optik.rotate(pose.q, point));

// ---------------------------------------------------------------- words for numbers

/** Writes a number with three digits, as a person would. */
optik.digits = function (value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 0.001 && size < 1e5) {
    const places = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(size))));
    return String(Number(value.toFixed(places))).replace("-", "−");
  }
  const power = Math.floor(Math.log10(size));
  const head = Number((value / 10 ** power).toFixed(1));
  return `${head}·10${optik.superscript(power)}`.replace("-", "−");
};

optik.superscript = (power) =>
  String(power).replace(/./g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");

/** Writes a length [m] with the unit that suits it. */
optik.length = function (metres) {
  if (metres === null) return "–";
  if (metres >= 1) return `${optik.digits(metres)} m`;
  if (metres >= 0.01) return `${optik.digits(metres * 100)} cm`;
  if (metres >= 1e-4) return `${optik.digits(metres * 1000)} mm`;
  return metres >= 1e-7 ? `${optik.digits(metres * 1e6)} µm` : metres === 0 ? "0" : "< 0.1 µm";
};

/** Writes an angle [rad] in degrees. */
optik.angle = function (radians) {
  if (radians === null) return "–";
  const degrees = (radians * 180) / Math.PI;
  return degrees >= 1e-4 ? `${optik.digits(degrees)}°` : degrees === 0 ? "0°" : "< 0.0001°";
};

optik.percent = (share) =>
  share === null || Number.isNaN(share)
    ? "–"
    : `${(100 * share).toFixed(Math.abs(share) < 0.0995 ? 1 : 0).replace(/^-?0(\.0)?$/, "0").replace("-", "−")} %`;

optik.escape = (text) =>
  String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
