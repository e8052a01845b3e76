// Query's SQL editor: CodeMirror over Streamlit's own text area, which stays in the page, hidden, and keeps the text.
//
// What is typed goes into the text area as if typed there, so the form, the saved queries and links work as without
// this. Where the editor cannot be built, the text area is simply seen. `data` is described in sql_editor.py.

const KEYWORDS = `select from where group by having order limit offset as distinct on using join inner left right full
  outer cross lateral natural semi anti asof positional union all except intersect with recursive materialized values case
  when then else end and or not in is null true false between like ilike similar to exists any some cast try_cast
  asc desc nulls first last over partition window rows range groups unbounded preceding following current row exclude
  filter within qualify pivot unpivot replace columns sample tablesample describe show summarize explain analyze tables
  interval escape collate rollup cube grouping sets`.split(/\s+/);
const TYPES = `bigint boolean date decimal double float hugeint integer json list map real smallint struct time timestamp
  tinyint ubigint uinteger uuid varchar text`.split(/\s+/);
const FUNCTIONS = `abs any_value approx_quantile arg_max arg_min avg ceil coalesce concat corr count count_if date_diff
  date_trunc dense_rank epoch exp first_value floor format generate_series greatest histogram lag last_value lead least
  length list_aggregate ln log lower max median min mode ntile nullif percent_rank quantile_cont quantile_disc
  range_agg rank regexp_extract regexp_matches replace round row_number sqrt stddev string_agg strftime substring sum
  trim unnest upper var_samp`.split(/\s+/);
const MOST_TRIES = 100, TRY_MS = 50;
const editors = new WeakMap();

export default function sqlEditor({ parentElement, data }) {
  if (!editors.has(parentElement)) {
    const editor = { stop: null, isGone: false };
    editors.set(parentElement, editor);
    build(parentElement, data, editor).catch(error => console.warn("The SQL editor was not built:", error));
  }
  return () => {
    const editor = editors.get(parentElement);
    editors.delete(parentElement);
    if (editor) { editor.isGone = true; editor.stop?.(); }
  };
}

async function build(root, data, editor) {
  const code = await import("./codemirror.min.js");
  const area = await areaOf(data.area);
  if (!area || editor.isGone) return;
  const holder = document.createElement("div");
  holder.className = "editor";
  root.append(holder);
  const view = new code.EditorView({
    parent: holder,
    root,
    state: code.EditorState.create({ doc: area.value, extensions: extensions(code, data, area) }),
  });
  // The text area's text is set by the page too: by a link, or a prepared query.
  const take = () => {
    if (area.value !== view.state.doc.toString()) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: area.value } });
    }
  };
  const watcher = new MutationObserver(take);
  watcher.observe(area, { childList: true, characterData: true, subtree: true, attributes: true });
  const hiding = document.createElement("style");
  hiding.textContent = `.st-key-${CSS.escape(data.area)} { display: none }`;
  document.head.append(hiding);
  editor.stop = () => { watcher.disconnect(); hiding.remove(); view.destroy(); holder.remove(); };
}

/** The text area on the page; null where it does not come. */
async function areaOf(key) {
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const area = document.querySelector(`.st-key-${CSS.escape(key)} textarea`);
    if (area) return area;
    await new Promise(resolve => setTimeout(resolve, TRY_MS));
  }
  return null;
}

function extensions(code, data, area) {
  const { EditorView, keymap, tags } = code;
  const dialect = code.SQLDialect.define({
    keywords: KEYWORDS.join(" "), types: TYPES.join(" "), builtin: FUNCTIONS.join(" "),
    doubleDollarQuotedStrings: true, operatorChars: "+-*/<>=~!@#%^&|`?",
  });
  const schema = Object.fromEntries(data.tables.map(table => [table.name, table.columns.map(columnOption)]));
  const submit = () => { setTimeout(() => pressControlEnter(area)); return true; };
  const style = code.HighlightStyle.define([
    { tag: tags.keyword, class: "keyword" }, { tag: tags.string, class: "string" },
    { tag: tags.comment, class: "comment" },
    { tag: [tags.number, tags.bool, tags.null], class: "number" }, { tag: tags.standard(tags.name), class: "function" },
    { tag: tags.typeName, class: "type" },
  ]);
  return [
    code.Prec.highest(keymap.of([{ key: "Mod-Enter", run: submit }, { key: "Ctrl-Enter", run: submit }])),
    keymap.of([...code.closeBracketsKeymap, ...code.completionKeymap, ...code.historyKeymap, ...code.defaultKeymap]),
    code.history(), code.drawSelection(), code.bracketMatching(), code.closeBrackets(),
    code.autocompletion({ icons: false, filterStrict: true }),
    code.sql({ dialect, schema, keywordCompletion: wordOption }),
    dialect.language.data.of({ autocomplete: context => columnsAt(context, data.tables) }),
    code.syntaxHighlighting(style), EditorView.lineWrapping, code.placeholder(area.placeholder),
    EditorView.contentAttributes.of({ "aria-label": area.getAttribute("aria-label") ?? "SQL" }),
    EditorView.updateListener.of(update => update.docChanged && write(area, update.state.doc.toString())),
  ];
}

/** The columns of the tables that the query names; of every table while it names none. */
function columnsAt(context, tables) {
  const word = context.matchBefore(/\w+/);
  if ((!word && !context.explicit) || context.matchBefore(/\.\w*/)) return null;
  const text = context.state.doc.toString().toLowerCase();
  const named = tables.filter(table => new RegExp(`\\b${table.name}\\b`).test(text));
  const byName = new Map();
  for (const table of named.length ? named : tables) {
    for (const column of table.columns) byName.set(column.name, [...(byName.get(column.name) ?? []), [table, column]]);
  }
  const options = [...byName.values()].map(found => ({
    ...columnOption(found[0][1]), detail: found.length === 1 ? found[0][0].name : `${found.length} tables`,
  }));
  return { from: word?.from ?? context.pos, options, validFor: /^\w*$/ };
}

/** Keywords in capitals; functions, which the dialect counts as names, as they are. */
function wordOption(label, kind) {
  return kind === "keyword" ? { label: label.toUpperCase(), type: kind, boost: -1 } : { label, type: kind, boost: -2 };
}

function columnOption(column) {
  const unit = column.unit ? ` [${column.unit}]` : "";
  return { label: column.name, type: "property", info: `${column.meaning}${unit}` };
}

/** Write into the text area as a person would: React hears the event and keeps the text. */
function write(area, text) {
  if (area.value === text) return;
  Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(area, text);
  area.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Streamlit's own key for a form's first button. */
function pressControlEnter(area) {
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", code: "Enter", ctrlKey: true, bubbles: true }));
}
