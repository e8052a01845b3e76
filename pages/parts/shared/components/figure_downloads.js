// The buttons PNG and SVG in each figure's toolbar. Plotly's own button makes the picture, offline, from the figure's
// layout as it is when the button is pressed: for that moment the layout is the one of `labPicture`. Plotly copies it
// before it returns, so the figure on screen does not change. Title and source are in the figure's `layout.meta`; the
// caption is the page's text right after the figure.
if (!window.labFigureDownloads) {
  const OWN = '[data-title^="Download plot"]';
  const captionOf = graph => {
    const place = graph.closest('[data-testid="stElementContainer"]');
    const next = place && place.nextElementSibling;
    const caption = next && next.querySelector('[data-testid="stCaptionContainer"]');
    return caption ? caption.innerText.trim() : "";
  };
  const background = () => getComputedStyle(document.querySelector(".stApp") || document.body).backgroundColor;
  const download = (graph, format) => {
    const meta = graph.layout.meta || {}, context = graph._context, layout = graph.layout;
    const before = context.toImageButtonOptions;
    const size = {width: graph.clientWidth, height: graph.clientHeight};
    const words = {title: meta.title || "", caption: captionOf(graph), source: meta.source || "", background: background()};
    const picture = labPicture(layout, size, words);
    try {
      graph.layout = picture;
      context.toImageButtonOptions =
        {format, filename: meta.file || "figure", width: picture.width, height: picture.height, scale: 2};
      graph.querySelector(OWN).click();
    } finally {
      graph.layout = layout;
      context.toImageButtonOptions = before;
    }
  };
  const button = (graph, format) => {
    const link = document.createElement("a");
    const name = format.toUpperCase();
    link.className = "modebar-btn lab-download";
    link.textContent = name;
    link.style.cssText = "display: inline-block; width: auto; padding: 0 5px; font: 600 11px/20px sans-serif; " +
      "color: inherit; opacity: 0.8; cursor: pointer; text-decoration: none";
    link.role = "button";
    link.tabIndex = 0;
    link.dataset.title = `Download as ${name}, with title and caption`;
    link.ariaLabel = link.dataset.title;
    link.addEventListener("click", () => download(graph, format));
    link.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); download(graph, format); }
    });
    return link;
  };
  const add = () => {
    for (const own of document.querySelectorAll(`.js-plotly-plot .modebar ${OWN}`)) {
      if (own.parentElement.querySelector(".lab-download")) continue;
      const graph = own.closest(".js-plotly-plot");
      own.style.display = "none";
      Object.assign(own.parentElement.style, {whiteSpace: "nowrap", width: "max-content"});
      own.before(button(graph, "png"), button(graph, "svg"));
    }
  };
  let isDue = false;
  window.labFigureDownloads = new MutationObserver(() => {
    if (isDue) return;
    isDue = true;
    setTimeout(() => { isDue = false; add(); }, 200);
  });
  window.labFigureDownloads.observe(document.body, {childList: true, subtree: true});
  add();
}
