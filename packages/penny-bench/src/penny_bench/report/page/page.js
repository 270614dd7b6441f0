"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const shown = {};
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Colours are named in the data and looked up here, so that light, dark and print each get their own.
  function resolved(value) {
    if (typeof value === "string") {
      return value.startsWith("var(--") ? colour(value.slice(4, -1)) : value;
    }
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(resolved);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, resolved(entry)]));
    }
    return value;
  }

  function layout(figure, data, width) {
    const narrow = width < 560;
    const { penny_right: right = 0, ...given } = figure.layout;
    const made = resolved(given);
    const special = (data.find((trace) => trace.penny) || {}).penny;
    made.paper_bgcolor = made.plot_bgcolor = "rgba(0,0,0,0)";
    made.font = { color: colour("--ink"), family: "system-ui, sans-serif", size: narrow ? 11 : 13 };
    made.margin = { l: narrow ? 48 : 60, r: (narrow ? 8 : 20) + right, t: 28, b: 44 };
    made.hoverlabel = { bgcolor: colour("--card"), font: { color: colour("--ink") }, bordercolor: colour("--faint") };
    made.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("--faint"), activecolor: colour("--ink") };
    // The legend stands a fixed way below the axis title; plotly counts in heights of the plot.
    made.legend = { orientation: "h", y: -44 / Math.max(60, made.height - 130), yanchor: "top", x: 0 };
    made.dragmode = narrow ? false : "zoom";
    for (const name of Object.keys(made).filter((key) => /^[xy]axis/.test(key))) {
      const axis = made[name];
      axis.gridcolor = axis.gridcolor || colour("--line");
      axis.zerolinecolor = colour("--line");
      axis.linecolor = colour("--faint");
      axis.automargin = true;
      if (axis.title) Object.assign(axis.title, { font: { size: narrow ? 11 : 12 }, standoff: 8 });
    }
    if (special && special.log) {
      made.xaxis.type = "log";
      made.xaxis.dtick = special.range[1] / special.range[0] < 100 ? "D2" : 1;
    }
    return made;
  }

  function draw(key) {
    const element = document.getElementById(key);
    const figure = figures[key];
    const chosen = figure.choices.length ? figure.choices[shown[key] || 0] : figure.data;
    const data = resolved(chosen);
    Plotly.react(element, data, layout(figure, data, element.clientWidth), {
      responsive: true,
      displaylogo: false,
      displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false,
      modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    });
  }

  const keys = Object.keys(figures);
  const redraw = () => keys.filter((key) => document.getElementById(key).data).forEach(draw);
  for (const picker of document.querySelectorAll("select[data-figure]")) {
    picker.value = "0";
    picker.addEventListener("change", () => {
      shown[picker.dataset.figure] = Number(picker.value);
      draw(picker.dataset.figure);
    });
  }
  // One after the other, so that the page can be read and scrolled meanwhile.
  function next(i) {
    if (i < keys.length) {
      draw(keys[i]);
      setTimeout(next, 0, i + 1);
    }
  }
  next(0);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing"); // light colours on paper, whatever the screen has
    document.querySelectorAll("details").forEach((each) => { each.open = true; });
    keys.forEach(draw);
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    redraw();
  });
})();
