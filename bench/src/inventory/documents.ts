import { createRandom } from '../listings/random.ts';

/** Inventory to generate. The same parameters give the same bytes. */
export type Document = {
  records: number;
  /** Share of invalid records, from 0 to 1. */
  faulty: number;
  /** One array with a record on each line, or JSON Lines. */
  format: 'json' | 'jsonl';
};

/** Expected finding of a faulty record, with the finding's offset in the record's text. */
type Fault = { code: string; pointer: string; offset: number };

/** Expected finding in a document. */
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
  for (let index = 0; index < records; index += 1) {
    const { text } = createRecord(index, document);
    if (format === 'json') chunk += `  ${text}${index + 1 < records ? ',' : ''}\n`;
    else chunk += `${text}\n`;
    if ((index + 1) % RECORDS_PER_CHUNK === 0) {
      yield chunk;
      chunk = '';
    }
  }
  yield format === 'json' ? `${chunk}]\n` : chunk;
}

/** Generates the expected findings of a document, in order. */
export function* expectedFindings(document: Document): Generator<Expected> {
  const isArray = document.format === 'json';
  for (let index = 0; index < document.records; index += 1) {
    const { fault } = createRecord(index, document);
    if (fault === undefined) continue;
    const { code, pointer, offset } = fault;
    yield {
      code,
      pointer: isArray ? `/${index}${pointer}` : pointer,
      line: index + (isArray ? 2 : 1),
      column: offset + (isArray ? 3 : 1),
    };
  }
}

function createRecord(index: number, { faulty }: Document): { text: string; fault?: Fault } {
  const random = createRandom(SEED, index);
  const host = `host-${random.below(1000)}.example`;
  const text = JSON.stringify({
    id: `endpoint-${index}`,
    name: `Endpoint number ${index}`,
    type: random.pick(TYPES),
    status: 'active',
    exposure: random.pick(EXPOSURES),
    docs: `docs/endpoints/${index}.md`,
    last_reviewed: `2026-0${random.between(1, 9)}-1${random.below(10)}`,
    url: `https://${host}:8443/${index}`,
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

// JSON Schema validators can find every fault except the duplicate key.
const FAULTS: readonly ((text: string) => { text: string; fault: Fault })[] = [
  (text) => ({
    text: text.replace(/"docs":"[^"]*",/, ''),
    fault: { code: 'schema/required', pointer: '', offset: 0 },
  }),
  (text) =>
    createFault(text.replace('"port":8443', '"port":"8443"'), 'schema/type', '/port', '"8443"'),
  (text) => {
    const invalidText = text.replace(/"exposure":"\w+"/, '"exposure":"Everybody"');
    return createFault(invalidText, 'schema/enum', '/exposure', '"Everybody"');
  },
  (text) => {
    const duplicated = text.replace(/\}$/, ',"status":"retired"}');
    return createFault(duplicated, 'json/duplicate-key', '/status', '"status":"retired"');
  },
];

/**
 * Pairs a faulty text with its expected finding.
 * @param part Substring at which the finding is expected.
 */
function createFault(text: string, code: string, pointer: string, part: string) {
  return { text, fault: { code, pointer, offset: text.indexOf(part) } };
}
