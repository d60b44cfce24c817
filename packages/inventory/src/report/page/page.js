// Sorts and filters the table of the report. Without this script, the page shows all records in file order.
(() => {
  function sortKey(row, index) {
    const cell = row.cells[index];
    return cell.dataset.sort ?? cell.textContent.trim();
  }

  const form = document.querySelector('form');
  const table = document.querySelector('.scroll table');
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function filter() {
    const { text, exposure, owner } = Object.fromEntries(new FormData(form));
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits =
        (exposure === '' || row.dataset.exposure === exposure) &&
        (owner === '' || row.dataset.owner === owner) &&
        words.every((word) => texts.get(row).includes(word));
      row.hidden = !fits;
      if (fits) shown += 1;
    }
    form.querySelector('output').textContent = `${shown} of ${rows.length} shown`;
  }

  // The reader's languages define the order of letters, such as і and й in Ukrainian.
  const { compare } = new Intl.Collator([...navigator.languages], { numeric: true });

  // Empty values are last in either direction.
  function compareRows(a, b, index, sign) {
    const [one, other] = [sortKey(a, index), sortKey(b, index)];
    if (one === '' || other === '') return Number(one === '') - Number(other === '');
    return sign * compare(one, other);
  }

  function sort(index, header) {
    const direction = header.ariaSort === 'ascending' ? 'descending' : 'ascending';
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    header.ariaSort = direction;
    const sign = direction === 'ascending' ? 1 : -1;
    body.append(...rows.toSorted((a, b) => compareRows(a, b, index, sign)));
  }

  [...table.tHead.rows[0].cells].forEach((header, index) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = header.textContent;
    header.replaceChildren(button);
    button.addEventListener('click', () => sort(index, header));
  });
  form.addEventListener('input', filter);
  form.addEventListener('submit', (event) => event.preventDefault());
  // The fields are reset after the event.
  form.addEventListener('reset', () => setTimeout(filter));
  form.hidden = false;
  filter();
})();
