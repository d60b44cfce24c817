/**
 * The text of one JSON value, in pieces that are made as they are asked for. Whoever stops to ask has nothing more
 * made. RFC 8259.
 */
export type JsonText = AsyncGenerator<string, void, undefined>;

/** How many characters a piece has at least that goes out, but for the last one: rows are short. */
const PIECE_LENGTH = 64 * 1024;

/** How many bytes of a file are written at once. A multiple of three has no padding. */
const SLICE_BYTES = (PIECE_LENGTH / 4) * 3;

/**
 * The text of an object. A field that is itself a text is written as it comes, and all others as `JSON.stringify`
 * does; fields that are undefined are left out.
 * @throws What a field's text throws. What has come until then is no JSON, and never becomes any.
 */
export async function* objectText(fields: object): JsonText {
  let text = '{';
  let separator = '';
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    text += `${separator}${JSON.stringify(name)}:`;
    separator = ',';
    if (isText(value)) {
      yield text;
      yield* value;
      text = '';
    } else {
      text += JSON.stringify(value);
    }
  }
  yield `${text}}`;
}

/**
 * The text of an array of objects, each read when those before it have been written.
 * @throws What the rows throw, as `objectText` does.
 */
export async function* arrayText(rows: AsyncIterable<object>): JsonText {
  let separator = '';
  yield '[';
  for await (const row of rows) {
    yield separator;
    yield* objectText(row);
    separator = ',';
  }
  yield ']';
}

/** The text of bytes in base64, which are not in memory as a text as well. RFC 4648 §4. */
export async function* base64Text(bytes: Buffer): JsonText {
  yield '"';
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) {
    yield bytes.toString('base64', start, start + SLICE_BYTES);
  }
  yield '"';
}

/** Joins what is short to pieces that are worth sending. */
export async function* joinPieces(text: JsonText): JsonText {
  let piece = '';
  for await (const part of text) {
    piece += part;
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = '';
  }
  yield piece;
}

function isText(value: unknown): value is JsonText {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
