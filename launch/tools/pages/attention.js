"use strict";
(() => {
  const report = JSON.parse(document.getElementById("attention").textContent);
  const tip = document.getElementById("tip");
  const SVG = "http://www.w3.org/2000/svg";

  const shown = (weight) => weight === 0 ? "0" : weight < 1e-4 ? weight.toExponential(3)
                                                              : weight.toPrecision(4);

  function rect(svg, name, x, y, width, height) {
    let element = svg.querySelector("." + name.replaceAll(" ", "."));
    if (!element) {
      element = document.createElementNS(SVG, "rect");
      element.setAttribute("class", name);
      svg.append(element);
    }
    for (const [key, value] of Object.entries({ x, y, width, height })) {
      element.setAttribute(key, value);
    }
  }

  function clear(section) {
    section.querySelectorAll(".cross").forEach((element) => element.remove());
    section.querySelectorAll("output").forEach((element) => { element.textContent = ""; });
    tip.hidden = true;
  }

  const geometry = (svg) => ["left", "top", "cell"].map((key) => Number(svg.dataset[key]));

  // A sequence whose attentions have names has a list of them.
  function attentionOf(svg) {
    const sequence = report.sequences[Number(svg.closest(".sequence").dataset.sequence)];
    const { attention } = svg.closest(".heads").dataset;
    return sequence.attentions ? sequence.attentions[Number(attention)] : sequence;
  }

  const sizeOf = (attention) => [attention.hidden.length, attention.hidden[0].length];

  // Marks one cell in every head of the layer, so that heads can be compared.
  function point(svg, t, s, x, y) {
    const section = svg.closest(".sequence");
    const attention = attentionOf(svg);
    const [rows, columns] = sizeOf(attention);
    if (!(t >= 0 && s >= 0 && t < rows && s < columns)) return clear(section);
    const isLocal = attention.heads[Number(svg.dataset.index)].local;
    const hidden = (isLocal ? attention.local_hidden : attention.hidden)[t][s] === 1;
    const text = (map) => {
      if (hidden) return "hidden";
      return shown(attention.heads[Number(map.dataset.index)].weights[t][s]);
    };
    for (const map of svg.closest(".layer").querySelectorAll(".map")) {
      const [left, top, cell] = geometry(map);
      rect(map, "cross band query", left, top + t * cell, columns * cell, cell);
      rect(map, "cross band key", left + s * cell, top, cell, rows * cell);
      rect(map, "cross cell", left + s * cell, top + t * cell, cell, cell);
      map.parentNode.querySelector("output").textContent = text(map);
    }
    const { queries, keys } = svg.closest(".heads").dataset;
    const tokens = report.sequences[Number(section.dataset.sequence)].tokens;  // of an image
    const label = (list, i) =>
      tokens && section.dataset.patches ? tokens[i]
        : section.querySelectorAll(".text")[Number(list)].children[i].dataset.label;
    tip.replaceChildren();
    const line = (name, content) => {
      const element = document.createElement(name);
      element.textContent = content;
      const row = document.createElement("div");
      row.append(element);
      tip.append(row);
    };
    line("strong", hidden ? "hidden by the mask" : text(svg));
    line("span", `query ${t}: ${label(queries, t)}`);
    line("span", `key ${s}: ${label(keys, s)}`);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 16, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
  }

  const stops = document.querySelector(".scale").dataset.colors.split(" ").map((color) =>
    [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)));

  // As heat_color() and color_index() in C++.
  const indexOf = (weight) => Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, weight))));
  const palette = Array.from({ length: 256 }, (_, index) => {
    const place = index / 255 * (stops.length - 1), below = Math.min(Math.floor(place), stops.length - 2);
    return stops[below].map((low, i) => low + (place - below) * (stops[below + 1][i] - low));
  });

  // A picture of weights as a URL.
  function picture(rows, columns, weightOf) {
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d"), pixels = context.createImageData(columns, rows);
    for (let i = 0; i < rows * columns; ++i) {
      const color = palette[indexOf(weightOf(Math.floor(i / columns), i % columns))];
      pixels.data.set([...color.map(Math.round), 255], 4 * i);
    }
    context.putImageData(pixels, 0, 0);
    return canvas.toDataURL();
  }

  function color(svg, each) {
    const attention = attentionOf(svg), head = attention.heads[Number(svg.dataset.index)];
    const [rows, columns] = sizeOf(attention);
    const largest = Math.max(...head.weights.map((row) => Math.max(...row)));
    const shade = (t, s) => head.weights[t][s] / (each && largest > 0 ? largest : 1);
    const image = document.querySelector(svg.querySelector("use").getAttribute("href"));
    image.setAttribute("href", picture(rows, columns, shade));
    const numbers = svg.querySelectorAll(".number");
    const hidden = (head.local ? attention.local_hidden : attention.hidden).flat();
    const visible = hidden.flatMap((value, i) => value === 0 ? [i] : []);
    numbers.forEach((number, i) => {
      const index = indexOf(shade(Math.floor(visible[i] / columns), visible[i] % columns));
      number.setAttribute("fill", index > 135 ? "#fff" : "#33465c");
    });
  }

  const colors = document.querySelector(".colors select");
  colors.closest(".colors").hidden = false;
  colors.addEventListener("change", () => {
    const each = colors.value === "each";
    for (const svg of document.querySelectorAll(".map")) color(svg, each);
    document.querySelector(".scale b").textContent =
      each ? "weight / largest weight of the map" : "weight of a key for a query";
  });

  // Images: the weights of the patches for a query that the reader chooses.
  for (const section of document.querySelectorAll("[data-patches]")) {
    const patches = Number(section.dataset.patches), first = Number(section.dataset.first);
    const pictures = section.querySelectorAll(".over-image");
    const button = section.querySelector(".queries button");
    const name = section.querySelector(".queries output");
    section.querySelector(".queries").hidden = false;
    let chosen = null;

    function choose(patch) {
      chosen = patch;
      for (const svg of pictures) {
        const { weights } = attentionOf(svg).heads[Number(svg.dataset.index)];
        const queries = patch !== null ? [weights[first + patch]] : first === 1 ? [weights[0]] : weights;
        const sums = queries[0].slice(first).map((_, key) =>
          queries.reduce((sum, row) => sum + row[first + key], 0));
        const largest = Math.max(...sums);
        const share = (y, x) => largest > 0 ? sums[y * patches + x] / largest : 0;
        svg.querySelector(".weights").setAttribute("href", picture(patches, patches, share));
        svg.querySelectorAll(".patch").forEach((element) => element.remove());
        if (patch === null) continue;
        const y = Math.floor(patch / patches) / patches, x = patch % patches / patches;
        rect(svg, "patch left", x, y, 1 / patches, 1 / patches);
        rect(svg, "patch right", 1.08 + x, y, 1 / patches, 1 / patches);
      }
      button.setAttribute("aria-pressed", String(patch === null));
      name.textContent = patch === null ? "" :
        `the patch in row ${Math.floor(patch / patches)} and column ${patch % patches}`;
    }

    button.addEventListener("click", () => choose(null));
    for (const svg of pictures) {
      svg.addEventListener("click", (event) => {
        const box = svg.getBoundingClientRect();
        const across = (event.clientX - box.left) / box.width * 2.08;
        const x = across >= 1.08 ? across - 1.08 : across, y = (event.clientY - box.top) / box.height;
        const at = [y, x].map((value) => Math.floor(value * patches));
        if (at.every((value) => value >= 0 && value < patches)) choose(at[0] * patches + at[1]);
      });
      svg.addEventListener("keydown", (event) => {
        const move = { ArrowUp: -patches, ArrowDown: patches, ArrowLeft: -1, ArrowRight: 1 };
        if (event.key === "Escape") return choose(null);
        if (!move[event.key]) return;
        event.preventDefault();
        const next = chosen === null ? 0 : chosen + move[event.key];
        if (next >= 0 && next < patches * patches) choose(next);
      });
    }
  }

  for (const svg of document.querySelectorAll(".map")) {
    let at = null;
    svg.addEventListener("pointermove", (event) => {
      const [left, top, cell] = geometry(svg);
      const box = svg.getBoundingClientRect();
      at = [Math.floor((event.clientY - box.top - top) / cell),
            Math.floor((event.clientX - box.left - left) / cell)];
      point(svg, at[0], at[1], event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => clear(svg.closest(".sequence")));
    svg.addEventListener("blur", () => clear(svg.closest(".sequence")));
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (!move[event.key]) return;
      event.preventDefault();
      const [left, top, cell] = geometry(svg);
      const size = sizeOf(attentionOf(svg));
      const next = at === null ? [0, 0] : at.map((value, i) => value + move[event.key][i]);
      at = next.map((value, i) => Math.max(0, Math.min(size[i] - 1, value)));
      const box = svg.getBoundingClientRect();
      point(svg, at[0], at[1], box.left + left + (at[1] + 1) * cell, box.top + top + at[0] * cell);
    });
  }
})();
