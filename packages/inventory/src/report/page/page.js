// Sorts and filters the table of the report. Without this script, the page shows all records in file order.
(() => {
  function getSortKey(row, index) {
    const cell = row.cells[index];
    return cell.dataset.sort ?? cell.textContent.trim();
  }

  const form = document.querySelector('form');
  const table = document.querySelector('.scroll table');
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function filterRows() {
    const { text, exposure, owner } = Object.fromEntries(new FormData(form));
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shownCount = 0;
    for (const row of rows) {
      const isMatch =
        (exposure === '' || row.dataset.exposure === exposure) &&
        (owner === '' || row.dataset.owner === owner) &&
        words.every((word) => texts.get(row).includes(word));
      row.hidden = !isMatch;
      if (isMatch) shownCount += 1;
    }
    form.querySelector('output').textContent = `${shownCount} of ${rows.length} shown`;
  }

  // The reader's languages define the sort order, such as the order of і and й in Ukrainian.
  const { compare } = new Intl.Collator([...navigator.languages], { numeric: true });

  // Empty values are last in either direction.
  function compareRows(a, b, index, sign) {
    const [firstKey, secondKey] = [getSortKey(a, index), getSortKey(b, index)];
    if (firstKey === '' || secondKey === '')
      return Number(firstKey === '') - Number(secondKey === '');
    return sign * compare(firstKey, secondKey);
  }

  function sortRows(index, header) {
    const direction = header.ariaSort === 'ascending' ? 'descending' : 'ascending';
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute('aria-sort');
    header.ariaSort = direction;
    const sign = direction === 'ascending' ? 1 : -1;
    body.append(...rows.toSorted((a, b) => compareRows(a, b, index, sign)));
  }

  [...table.tHead.rows[0].cells].forEach((header, index) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = header.textContent;
    header.replaceChildren(button);
    button.addEventListener('click', () => sortRows(index, header));
  });
  form.addEventListener('input', filterRows);
  form.addEventListener('submit', (event) => event.preventDefault());
  // The fields are reset after the event.
  form.addEventListener('reset', () => setTimeout(filterRows));
  form.hidden = false;
  filterRows();
})();
