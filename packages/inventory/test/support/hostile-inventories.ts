import { MAX_RECORD_PARTS } from '../../src/limits.ts';
import { VALID_RECORD } from './findings.ts';

/** About as much as a record may have. */
const BYTES = 1_000_000;
const HEAD = JSON.stringify(VALID_RECORD).slice(0, -1);

/** Members or items with commas between them, as many as a record may have and as large. */
function filled(one: (nth: number) => string): string {
  const count = MAX_RECORD_PARTS - 100;
  return Array.from({ length: count }, (_, nth) => one(nth))
    .join(',')
    .slice(0, BYTES)
    .replace(/,[^,]*$/, '');
}

/** Inventories, in chunks, that would make a check keep much, and the exit status that they have. */
export const HOSTILE: Record<string, { status: number; chunks: () => Iterable<string> }> = {
  'one huge record': {
    status: 1,
    chunks: () => [`[${HEAD},"x":[`, ...Array<string>(40).fill(`${filled(() => '{}')},`), '1]}]'],
  },
  'huge strings': {
    status: 0,
    chunks: () => repeated(`${HEAD},"notes":"${'€'.repeat(BYTES / 3)}"}`),
  },
  'many values': {
    status: 1,
    chunks: () => repeated(`${HEAD},"port":"x","y":[${filled(() => '""')}]}`),
  },
  'many keys': {
    status: 1,
    chunks: () => repeated(`{"id":1,${filled((nth) => `"k${String(nth).padStart(14, '0')}":1`)}}`),
  },
  'many keys, not of ASCII': {
    status: 1,
    chunks: () => repeated(`{"id":1,${filled((nth) => `"ключ${nth}":1`)}}`),
  },
  'repeated keys': {
    status: 1,
    chunks: () => repeated(`{"id":1,"x":{${filled(() => '"":123456789')}}}`),
  },
  'no records': {
    status: 1,
    chunks: () => ['[', ...Array<string>(20).fill('{"id":1,"port":"x"},'.repeat(2_000)), '0]'],
  },
};

function repeated(record: string): string[] {
  return ['[', ...Array<string>(7).fill(`${record},`), `${record}]`];
}
