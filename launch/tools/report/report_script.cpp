#include "launch/tools/report/report_parts.h"

namespace tessera {

const std::string_view kReportScriptState = R"(
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const { runs, panels } = report;
  const find = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const LEFT = 54, RIGHT = 18, TOP = 8, BOTTOM = 22;  // margins of a panel
  const COLORS = 8, DASHES = ["", "7 4", "2 4", "9 3 2 3"];
  const MOST_DOTS = 400;

  function make(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  function shape(name, attributes) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  // What the reader chose. It is kept in the address, so that it survives a reload.
  const state = { x: "step", smooth: 0, zoom: null, log: new Set(), off: new Set(), reload: true,
    sample: null };  // the step of the samples; null: the last one
  const hasTokens = runs.some((run) => run.series.tokens);

  function load() {
    const saved = new URLSearchParams(location.hash.slice(1));
    const list = (key) => (saved.get(key) || "").split(",").filter((item) => item !== "");
    if (saved.get("x") === "tokens" && hasTokens) state.x = "tokens";
    const smooth = Number(saved.get("smooth"));
    if (smooth > 0 && smooth < 1) state.smooth = smooth;
    const zoom = list("zoom").map(Number);
    if (zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1]) state.zoom = zoom;
    for (const id of list("log")) state.log.add(id);
    for (const run of list("off").map(Number)) if (run < runs.length) state.off.add(run);
    state.reload = saved.get("reload") !== "0";
    const sample = Number(saved.get("sample") || NaN);
    if (Number.isFinite(sample)) state.sample = sample;
  }
  function save() {
    const saved = new URLSearchParams();
    if (state.x !== "step") saved.set("x", state.x);
    if (state.smooth > 0) saved.set("smooth", state.smooth);
    if (state.zoom) saved.set("zoom", state.zoom.map((value) => Number(value.toPrecision(9))));
    if (state.log.size > 0) saved.set("log", [...state.log]);
    if (state.off.size > 0) saved.set("off", [...state.off]);
    if (!state.reload) saved.set("reload", "0");
    if (state.sample !== null) saved.set("sample", state.sample);
    history.replaceState(null, "", "#" + saved);
  }

  // The first index whose value is at least `value`.
  function lowerBound(list, value) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }
  function nearest(list, value) {
    const next = lowerBound(list, value);
    if (next === 0) return 0;
    if (next === list.length) return next - 1;
    return value - list[next - 1] <= list[next] - value ? next - 1 : next;
  }
  // Between logged steps, tokens grow in proportion to steps.
  function tokensAt({ x, y }, step) {
    const next = lowerBound(x, step);
    if (next === x.length) return y[next - 1];
    if (next === 0) return x[0] > 0 ? y[0] * step / x[0] : y[0];
    return y[next - 1] + (y[next] - y[next - 1]) * (step - x[next - 1]) / (x[next] - x[next - 1]);
  }
  const place = (run, step) => state.x === "step" ? step : tokensAt(runs[run].series.tokens, step);
  const isShown = (run) =>
    !state.off.has(run) && (state.x === "step" || Boolean(runs[run].series.tokens));

  // Numbers as text.
  const PREFIXES = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const trim = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  function scaleOf(largest, unit) {
    if (unit === "percent") return [0.01, " %"];
    if (unit === "seconds") {
      return largest >= 1 ? [1, " s"] : largest >= 1e-3 ? [1e-3, " ms"] : [1e-6, " µs"];
    }
    if (unit === "amount") {
      for (const [factor, prefix] of PREFIXES) if (largest >= factor) return [factor, " " + prefix];
    }
    return [1, ""];
  }
  function valueText(value, unit) {
    if (value === null) return "not finite";
    if (value === 0) return "0";
    const [factor, suffix] = scaleOf(Math.abs(value), unit);
    const scaled = value / factor, size = Math.abs(scaled);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return scaled.toExponential(2) + suffix;
    return scaled.toPrecision(size >= 1000 ? 5 : 4) + suffix;
  }
  function tickText(value, step, largest, unit) {
    const [factor, suffix] = scaleOf(largest, unit);
    if (value === 0) return "0";
    const scaled = value / factor, gap = step / factor;
    if (largest / factor < 2e-3 || largest / factor >= 1e6) {
      const [digits, power] = scaled.toExponential(2).split("e");
      return `${trim(digits)}e${Number(power)}${suffix}`;
    }
    const digits = Math.min(8, Math.max(0, -Math.floor(Math.log10(gap) + 1e-9)));
    return scaled.toFixed(digits) + suffix;
  }
  const stepText = (value) => Math.round(value).toLocaleString("en");
  function placeText(value) {
    return state.x === "step" ? "step " + stepText(value) : valueText(value, "amount") + " tokens";
  }

  // About `count` round numbers within [from, to].
  function ticks(from, to, count, least) {
    const rough = Math.max((to - from) / Math.max(1, count), least);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
    const first = Math.ceil(from / step - 1e-9), list = [];
    for (let i = 0; i <= 30 && (first + i) * step <= to + step * 1e-9; ++i) {
      list.push((first + i) * step);
    }
    return { list, step };
  }
  function logTicks(from, to, count) {
    const decades = Math.log10(to / from), list = [];
    const factors = decades < 1.3 ? [1, 2, 3, 5, 7] : decades < 3 ? [1, 2, 5] : [1];
    const stride = Math.max(1, Math.ceil(decades / Math.max(1, count)));
    const first = Math.floor(Math.log10(from)), last = Math.log10(to);
    for (let e = first; e <= last && list.length < 60; e += stride) {
      for (const factor of factors) {
        const value = factor * 10 ** e;
        if (value >= from * 0.999 && value <= to * 1.001) list.push(value);
      }
    }
    return list;
  }

  // The curves of each panel: a series of a run.
  for (const panel of panels) {
    panel.curves = [];
    runs.forEach((run, index) => panel.series.forEach((series, order) => {
      const data = run.series[series.key];
      if (!data) return;
      const alone = runs.length === 1;
      const color = (alone ? order : index) % COLORS;
      const dash = alone ? 0 : Math.floor(index / COLORS) + (series.dots ? 0 : order);
      panel.curves.push({ run: index, series, steps: data.x, raw: data.y, x: data.x, y: data.y,
        color: `var(--c${color})`, dash: DASHES[dash % DASHES.length] });
    }));
  }
  const allCurves = () => panels.flatMap((panel) => panel.curves);
  const shownCurves = (panel) => panel.curves.filter((curve) => isShown(curve.run));

  function smoothed(values, weight) {
    let sum = 0, count = 0;
    return values.map((value) => {
      if (value === null) return null;
      sum = sum * weight + value * (1 - weight);
      return sum / (1 - weight ** ++count);  // without the bias towards the zero it starts from
    });
  }
  function updateCurves() {
    for (const panel of panels) {
      for (const curve of panel.curves) {
        const smooths = state.smooth > 0 && panel.smooth && !curve.series.dots;
        curve.y = smooths ? smoothed(curve.raw, state.smooth) : curve.raw;
        if (isShown(curve.run)) curve.x = curve.steps.map((step) => place(curve.run, step));
      }
    }
  }
)";

}  // namespace tessera
