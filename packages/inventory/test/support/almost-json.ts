import fc from 'fast-check';

// Characters that JSON, or what people take for it, is made of.
const CHARACTERS = Array.from(
  '[]{}:,"\'\\/ \n\r\t0123456789-+.eEtruefalsnulNaN_$#aé🏠\u0000\u2028',
);

/** Texts of JSON values, as they are or with a few characters taken away, put in or changed. */
export function almostJson(value: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  const edit = fc.record({
    at: fc.nat(),
    remove: fc.nat({ max: 2 }),
    insert: fc.string({ unit: fc.constantFrom(...CHARACTERS), maxLength: 2 }),
  });
  const indent = fc.constantFrom(undefined, 1, '\t');
  return fc.tuple(value, indent, fc.array(edit, { maxLength: 2 })).map(([parsed, space, edits]) => {
    let text = JSON.stringify(parsed, null, space);
    for (const { at, remove, insert } of edits) {
      const from = at % (text.length + 1);
      text = text.slice(0, from) + insert + text.slice(from + remove);
    }
    return text.toWellFormed();
  });
}
