import { decodeHTMLStrict } from 'entities';
import { Parser } from 'htmlparser2';
import type { Payload } from './schema.ts';

/** The fields that people write; a source copies them from its pages or a feed. */
const TEXT_FIELDS = [
  'title',
  'description',
  'property_type',
  'city',
  'district',
  'address',
  'contact_name',
] as const satisfies readonly (keyof Payload)[];

/** Elements within a line; every other element begins and ends a line. */
const INLINE =
  'a abbr b big cite code em font i label mark q s small span strike strong sub sup time tt u'.split(
    ' ',
  );
const CELLS = ['td', 'th'];
/** Elements whose content is for browsers. */
const HIDDEN = ['iframe', 'noscript', 'script', 'style', 'svg', 'template'];
const OTHERS =
  'article aside blockquote body br center dd div dl dt footer form h[1-6] head header hr html img li link main meta nav ol p pre section table tbody tfoot thead tr ul'.split(
    ' ',
  );

/** A value excludes `<`, so that matching stays linear in the length of the text. */
const ATTRIBUTE = String.raw`\s+[a-z][\w:-]*(?:\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>]+))?`;
const NAME = [...INLINE, ...CELLS, ...HIDDEN, ...OTHERS].join('|');
const TAG = new RegExp(String.raw`<(?:/?(?:${NAME})(?:${ATTRIBUTE})*\s*/?>|!--|!doctype\b)`, 'i');

/**
 * Returns a payload with its texts converted by `plainText`, for the model, the listing and the search. The stored
 * payload is not changed.
 */
export function plainPayload(payload: Payload): Payload {
  const plain = { ...payload };
  for (const key of TEXT_FIELDS) {
    const text = payload[key];
    if (text !== undefined) plain[key] = plainText(text);
  }
  if (payload.phones !== undefined) plain.phones = payload.phones.map(plainText);
  return plain;
}

/**
 * Converts possible HTML to plain text, with a line for each paragraph, list item and table row. A text is HTML if it
 * has a whole tag of a known element, or a comment, escaped or not. In other texts only entities with a semicolon are
 * decoded, so that "площа < 50 м²" and "?a=1&copy=2" stay.
 * @returns The plain text; `text` itself if that would be empty, as for a lone image.
 */
export function plainText(text: string): string {
  const unescaped = TAG.test(text) ? text : decodeHTMLStrict(text);
  if (!TAG.test(unescaped)) return unescaped;
  return withoutTags(unescaped) || text;
}

function withoutTags(html: string): string {
  const parts: string[] = [];
  let hidden = 0;
  const separate = (name: string): void => {
    if (!INLINE.includes(name)) parts.push(CELLS.includes(name) ? ' ' : '\n');
  };
  const parser = new Parser({
    onopentag(name) {
      if (HIDDEN.includes(name)) hidden += 1;
      separate(name);
    },
    onclosetag(name) {
      if (HIDDEN.includes(name)) hidden -= 1;
      separate(name);
    },
    ontext(text) {
      if (hidden === 0) parts.push(text);
    },
  });
  parser.end(html);
  const lines = parts.join('').split('\n');
  const written = lines.map((line) => line.replaceAll(/\s+/gu, ' ').trim());
  return written.filter((line) => line !== '').join('\n');
}
