// A figure's layout as a picture to send: a title above, the caption and the source below, on the page's background.
// Streamlit drops a script in which an opening angle bracket begins a tag, so tags are written with \u003c.
// `words` has title, caption, source and background; `size` is the figure's width and height on screen, in pixels.
function labPicture(layout, size, words) {
  const edge = 12, titlePx = 34, linePx = 17, characterPx = 6.6;
  const margin = {l: 0, r: 0, t: 0, b: 0, ...layout.margin};
  const most = Math.max(24, Math.floor((size.width - 2 * edge) / characterPx));
  const wrapped = text => (text || "").split("\n").flatMap(line => {
    const lines = [""];
    for (const word of line.split(" ")) {
      const last = lines[lines.length - 1];
      if (last && last.length + word.length >= most) lines.push(word);
      else lines[lines.length - 1] = last ? last + " " + word : word;
    }
    return lines;
  }).filter(line => line);
  const literal = text => text.replace(/&/g, "&amp;").replace(/\u003c/g, "&lt;").replace(/>/g, "&gt;");
  const lines = [...wrapped(words.caption).map(literal), ...wrapped(words.source).map(line => `\u003ci>${literal(line)}\u003c/i>`)];
  const hasTitle = Boolean(layout.title && layout.title.text);
  const above = hasTitle ? 0 : titlePx, below = lines.length * linePx + edge;
  const color = (layout.font || {}).color;
  return {
    ...layout,
    autosize: false,
    width: size.width,
    height: size.height + above + below,
    margin: {...margin, t: margin.t + above, b: margin.b + below},
    paper_bgcolor: words.background,
    title: {
      text: `\u003cb>${literal(words.title)}\u003c/b>`, font: {size: 16, color}, x: 0, xref: "container", xanchor: "left",
      y: 1, yref: "container", yanchor: "top", pad: {t: 9, l: edge},
    },
    annotations: [
      ...(layout.annotations || []),
      {
        text: lines.join("\u003cbr>"), showarrow: false, align: "left", font: {size: 13, color},
        xref: "paper", x: 0, xanchor: "left", xshift: edge - margin.l,
        yref: "paper", y: 0, yanchor: "top", yshift: -margin.b,
      },
    ],
  };
}
