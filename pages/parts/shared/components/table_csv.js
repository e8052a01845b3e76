// The button below each small table: its cells as a CSV file, made in the browser. A text that a spreadsheet would run
// as a formula begins with an apostrophe; cells of number columns are the lab's own and stay as they are.
if (!window.labTableCsv) {
  window.labTableCsv = true;
  const SIGNS = LAB_FORMULA_SIGNS;
  const cellText = cell => {
    const text = cell.textContent;
    const isText = !cell.classList.contains("figure");
    const safe = isText && SIGNS.some(sign => text.startsWith(sign)) ? "'" + text : text;
    return /[",\r\n]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
  };
  document.addEventListener("click", event => {
    const button = event.target.closest && event.target.closest(".lab-csv");
    if (!button) return;
    const rows = [...button.closest(".lab-table").querySelectorAll("tr")];
    const csv = rows.map(row => [...row.cells].map(cellText).join(",")).join("\r\n") + "\r\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff" + csv.replace(/\u00a0/g, " ")], {type: "text/csv"}));
    link.download = button.dataset.file + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}
