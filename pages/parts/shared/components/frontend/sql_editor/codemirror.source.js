// CodeMirror as the SQL editor needs it, in one file: see README.md beside it.
export { EditorView, keymap, placeholder, drawSelection } from "@codemirror/view";
export { EditorState, Prec } from "@codemirror/state";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
export { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
export { SQLDialect, sql } from "@codemirror/lang-sql";
export { tags } from "@lezer/highlight";
