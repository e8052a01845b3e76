// The glossary on hover: marks the lab's terms in running text and shows what one means under the pointer or on a tap.
// Streamlit drops a script in which a less-than sign stands before a letter, a slash or an exclamation mark.
// It changes no element of the page: ranges are marked through CSS.highlights, so that the page can be drawn again.
const TEXT = [
  ".stMain [data-testid='stCaptionContainer']", ".stMain [data-testid='stMarkdownContainer'] p", ".stMain h2",
  ".stMain h3", ".stMain h4", ".tiles .label", ".tiles .note",
].join(", ");
const words = Object.keys(meanings).sort((one, other) => other.length - one.length);
const escaped = words.map(word => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
const pattern = new RegExp(`\\b(${escaped.join("|")})(?:e?s)?\\b`, "gi");
const meaningOf = Object.fromEntries(words.map(word => [word.toLowerCase(), meanings[word]]));

const tip = document.createElement("div");
tip.id = "lab-term";
tip.setAttribute("role", "tooltip");
document.body.append(tip);

function* textNodes(element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement.closest("a, code, button, label")) yield walker.currentNode;
  }
}

function mark() {
  const seen = new Set(), ranges = [];
  for (const element of document.querySelectorAll(TEXT)) {
    for (const node of textNodes(element)) {
      for (const match of node.data.matchAll(pattern)) {
        const word = match[1].toLowerCase();
        if (seen.has(word)) continue;
        seen.add(word);
        const range = new Range();
        range.setStart(node, match.index);
        range.setEnd(node, match.index + match[0].length);
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set("lab-term", new Highlight(...ranges));
}

function caretAt(x, y) {
  if (document.caretPositionFromPoint) {
    const caret = document.caretPositionFromPoint(x, y);
    return caret && {node: caret.offsetNode, offset: caret.offset};
  }
  const range = document.caretRangeFromPoint(x, y);
  return range && {node: range.startContainer, offset: range.startOffset};
}

function termAt(event) {
  if (!(event.target instanceof Element) || !event.target.closest(TEXT) || event.target.closest("a, code, button, label")) {
    return null;
  }
  const caret = caretAt(event.clientX, event.clientY);
  if (!caret || caret.node.nodeType !== Node.TEXT_NODE) return null;
  for (const match of caret.node.data.matchAll(pattern)) {
    const end = match.index + match[0].length;
    if (caret.offset < match.index || caret.offset > end) continue;
    const range = new Range();
    range.setStart(caret.node, match.index);
    range.setEnd(caret.node, end);
    const box = [...range.getClientRects()].find(each =>
      event.clientX >= each.left && event.clientX <= each.right && event.clientY >= each.top && event.clientY <= each.bottom);
    if (box) return {word: match[1], box};
  }
  return null;
}

function show(event) {
  const term = termAt(event);
  if (!term) {
    tip.style.display = "none";
    return;
  }
  tip.replaceChildren(Object.assign(document.createElement("b"), {textContent: term.word}),
    ` ${meaningOf[term.word.toLowerCase()]}`);
  tip.style.display = "block";
  const left = Math.min(term.box.left, innerWidth - tip.offsetWidth - 8);
  const below = term.box.bottom + 6;
  const fits = below + tip.offsetHeight < innerHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${fits ? below : term.box.top - tip.offsetHeight - 6}px`;
}

if (CSS.highlights) {
  let waiting = 0, moving = 0;
  new MutationObserver(() => {
    clearTimeout(waiting);
    waiting = setTimeout(mark, 400);
  }).observe(document.querySelector(".stApp") || document.body, {childList: true, characterData: true, subtree: true});
  document.addEventListener("mousemove", event => {
    cancelAnimationFrame(moving);
    moving = requestAnimationFrame(() => show(event));
  }, {passive: true});
  document.addEventListener("click", show);
  document.addEventListener("scroll", () => { tip.style.display = "none"; }, {capture: true, passive: true});
  document.addEventListener("keydown", event => { if (event.key === "Escape") tip.style.display = "none"; });
  mark();
}
