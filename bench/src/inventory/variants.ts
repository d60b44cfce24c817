import { fileURLToPath } from 'node:url';

/** Command that reads an inventory. */
export type Variant = {
  name: string;
  /** Returns the module and its arguments for a file. */
  args: (file: string) => string[];
  /** Text in each line that reports an error; omitted if the command reports no errors. */
  errorMark?: string;
};

const resolveModule = (specifier: string) => fileURLToPath(import.meta.resolve(specifier));
const SCHEMA = resolveModule('@oselya/inventory/endpoint.schema.json');

const OSELYA_COMMAND = fileURLToPath(new URL('../../../apps/cli/bin/oselya.js', import.meta.url));

export const oselya: Variant = {
  name: 'oselya inventory validate',
  args: (file) => [OSELYA_COMMAND, 'inventory', 'validate', '--format', 'json', file],
  errorMark: '"pointer":',
};

/** Linter with a fixed date, on which no review in the documents is overdue. */
export const lint: Variant = {
  name: 'oselya inventory lint',
  args: (file) => [
    OSELYA_COMMAND,
    'inventory',
    'lint',
    '--today',
    '2026-10-01',
    '--format',
    'json',
    file,
  ],
  errorMark: '"pointer":',
};

export const jsonParse: Variant = {
  name: 'JSON.parse alone',
  args: (file) => [fileURLToPath(new URL('json-parse.ts', import.meta.url)), file],
};

/** Peers with options to find every error; @jirutka/ajv-cli also reports positions. */
export const peers: readonly Variant[] = [
  {
    name: 'ajv-cli',
    args: (file) => [
      resolveModule('ajv-cli/dist/index.js'),
      'validate',
      '--spec=draft2020',
      '--all-errors',
      '--errors=json',
      '-s',
      SCHEMA,
      '-d',
      file,
    ],
    errorMark: '"instancePath":',
  },
  {
    name: '@jirutka/ajv-cli',
    args: (file) => [
      resolveModule('@jirutka/ajv-cli/lib/main.js'),
      'validate',
      '--spec',
      'draft2020',
      '--all-errors',
      '--errors',
      'line',
      '-s',
      SCHEMA,
      '--',
      file,
    ],
    errorMark: ' - ',
  },
];
