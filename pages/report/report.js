// Unpacks Plotly and the figures, and draws them for the page's theme. A dark figure is its light one with changes.
const PRINT_PX = 690;
const isDark = matchMedia("(prefers-color-scheme: dark)");
let figures = [];

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function themed(figure, dark) {
  if (!dark) return structuredClone(figure.light);
  const found = {root: structuredClone(figure.light)};
  for (const [path, value] of figure.dark) {
    const places = ["root", ...path], last = places.pop();
    places.reduce((part, place) => part[place], found)[last] = structuredClone(value);
  }
  return found.root;
}

function download(graph, format) {
  const box = graph.closest("figure"), size = {width: graph.clientWidth, height: graph.clientHeight};
  const background = getComputedStyle(document.body).backgroundColor;
  const layout = labPicture(graph.layout, size, {...box.dataset, caption: box.querySelector("figcaption").innerText, background});
  const options = {format, filename: box.dataset.file, width: layout.width, height: layout.height, scale: 2};
  return Plotly.downloadImage({data: graph.data, layout}, options);
}

function imageButton(format) {
  const name = format.toUpperCase(), title = `Download as ${name}, with title and caption`;
  const icon = {svg: `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 20" width="30" height="20"><text x="1" y="15">${name}</text></svg>`};
  return {name: `lab-${format}`, title, icon, click: graph => download(graph, format)};
}

function draw(box, dark, width) {
  const graph = box.querySelector(".draw"), {data, layout} = themed(figures[box.dataset.place], dark);
  const images = [imageButton("png"), imageButton("svg")];
  const config = {displaylogo: false, responsive: width === undefined};
  if (box.classList.contains("narrow")) config.modeBarButtons = [images];
  else Object.assign(config, {modeBarButtonsToRemove: ["toImage"], modeBarButtonsToAdd: images});
  if (width !== undefined) Object.assign(layout, {autosize: false, width});
  return Plotly.react(graph, data, layout, config);
}

function drawAll(dark, width) {
  return Promise.all([...document.querySelectorAll("figure[data-place]")].map(box => draw(box, dark, width)));
}

async function start() {
  try {
    const [plotly, drawings] = await Promise.all([unpacked("plotly"), unpacked("figures")]);
    const code = document.createElement("script");
    code.textContent = plotly;
    document.head.append(code);
    figures = JSON.parse(drawings);
    const fonts = ["12px", "bold 12px"].map(size => document.fonts.load(`${size} "Source Sans"`));
    await Promise.all(fonts);  // Plotly measures texts when it draws
    for (const box of document.querySelectorAll("figure[data-place]")) {
      await draw(box, isDark.matches);
      box.querySelector(".draw").classList.remove("waiting");
      await new Promise(requestAnimationFrame);
    }
    document.documentElement.dataset.drawn = "yes";
    isDark.addEventListener("change", () => drawAll(isDark.matches));
    addEventListener("beforeprint", () => {
      document.querySelectorAll("details").forEach(each => { each.open = true; });
      drawAll(false, PRINT_PX);
    });
    addEventListener("afterprint", () => drawAll(isDark.matches));
  } catch (error) {
    document.getElementById("fallback").hidden = false;
    console.warn(error);
  }
}

for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const text = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected: press Ctrl+C";
    }
  });
}
start();
