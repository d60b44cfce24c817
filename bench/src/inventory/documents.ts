import { createRandom } from '../listings/random.ts';

/** Inventory to generate. Equal parameters give equal bytes. */
export type Document = {
  records: number;
  /** Share of invalid records, from 0 to 1. */
  faulty: number;
  /** One array with a record on each line, or JSON Lines. */
  format: 'json' | 'jsonl';
};

/** Expected findings of a faulty record, with offsets in its text. */
type Fault = { code: string; pointer: string; offset: number };

/** Expected findings of a document. */
export type Expected = { code: string; pointer: string; line: number; column: number };

const SEED = 20_261_121;
const RECORDS_PER_CHUNK = 500;
const TYPES = ['http', 'database', 'metrics', 'queue'];
const EXPOSURES = ['public', 'vpn', 'local', 'private', 'unknown'];
const PURPOSES = [
  'Serves the pages of the shop to its customers and to the staff.',
  'Keeps the orders of the last five years for the accountants.',
  'Tells the people on call how the machines are doing.',
];

/** Generates the text of a document in chunks. */
export function* generateDocument(document: Document): Generator<string> {
  const { records, format } = document;
  if (format === 'json') yield '[\n';
  let chunk = '';
  for (let nth = 0; nth < records; nth += 1) {
    const { text } = createRecord(nth, document);
    if (format === 'json') chunk += `  ${text}${nth + 1 < records ? ',' : ''}\n`;
    else chunk += `${text}\n`;
    if ((nth + 1) % RECORDS_PER_CHUNK === 0) {
      yield chunk;
      chunk = '';
    }
  }
  yield format === 'json' ? `${chunk}]\n` : chunk;
}

/** Generates the expected findings of a document, in order. */
export function* expectedFindings(document: Document): Generator<Expected> {
  const isArray = document.format === 'json';
  for (let nth = 0; nth < document.records; nth += 1) {
    const { fault } = createRecord(nth, document);
    if (fault === undefined) continue;
    const { code, pointer, offset } = fault;
    yield {
      code,
      pointer: isArray ? `/${nth}${pointer}` : pointer,
      line: nth + (isArray ? 2 : 1),
      column: offset + (isArray ? 3 : 1),
    };
  }
}

function createRecord(nth: number, { faulty }: Document): { text: string; fault?: Fault } {
  const random = createRandom(SEED, nth);
  const host = `host-${random.below(1000)}.example`;
  const text = JSON.stringify({
    id: `endpoint-${nth}`,
    name: `Endpoint number ${nth}`,
    type: random.pick(TYPES),
    status: 'active',
    exposure: random.pick(EXPOSURES),
    docs: `docs/endpoints/${nth}.md`,
    last_reviewed: `2026-0${random.between(1, 9)}-1${random.below(10)}`,
    url: `https://${host}:8443/${nth}`,
    protocol: 'https',
    host,
    port: 8443,
    domain: host,
    service: 'shop',
    auth: 'single sign-on',
    owner_host: `edge-${random.below(50)}`,
    purpose: random.pick(PURPOSES),
    source_of_truth: 'infrastructure/endpoints',
  });
  return random.chance(faulty) ? random.pick(FAULTS)(text) : { text };
}

// The repeated key is the only error that validators of JSON Schema cannot find.
const FAULTS: readonly ((text: string) => { text: string; fault: Fault })[] = [
  (text) => ({
    text: text.replace(/"docs":"[^"]*",/, ''),
    fault: { code: 'schema/required', pointer: '', offset: 0 },
  }),
  (text) =>
    createFault(text.replace('"port":8443', '"port":"8443"'), 'schema/type', '/port', '"8443"'),
  (text) => {
    const invalid = text.replace(/"exposure":"\w+"/, '"exposure":"Everybody"');
    return createFault(invalid, 'schema/enum', '/exposure', '"Everybody"');
  },
  (text) => {
    const repeating = text.replace(/\}$/, ',"status":"retired"}');
    return createFault(repeating, 'json/duplicate-key', '/status', '"status":"retired"');
  },
];

/** Returns a faulty text and its expected finding, at the position of a part. */
function createFault(text: string, code: string, pointer: string, part: string) {
  return { text, fault: { code, pointer, offset: text.indexOf(part) } };
}
