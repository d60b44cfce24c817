import { isDeepStrictEqual } from 'node:util';
import { maskCredentials, maskId, maskRecord, maskValue } from '../credentials.ts';
import type { PlacedRecord } from '../read/inventory-reader.ts';
import { type EndpointRecord, EXPOSURES } from '../record.ts';
import {
  escapeInvisible,
  formatCount,
  formatJsonList,
  formatMarkdownCell,
  quoteId,
} from '../text.ts';
import {
  createChoiceOption,
  type Command,
  INPUT_FORMAT_OPTION,
  parseArguments,
  UsageError,
} from './command.ts';
import { readInput, resolveSingleFile } from './files.ts';

const HELP = `Compares two inventories by the ids of their records: what changed, with widened exposures first, what
was added, and what was removed. OLD and NEW are as FILE is for \`validate\`; one of them may be - for
standard input.

Options:
  --format text|json|md             the output format (default: text)
  --fail-on widened|any             exit with 1 when an exposure was widened or an added endpoint is
                                    public, or (any) when anything differs
  --input-format json|jsonl|yaml    the format of both, whatever their names
  --help                            print this text

Exit status: 0 compared, 1 what --fail-on says, 2 unreadable or invalid file, or usage error.
`;

/** `oselya inventory diff` (Contract 5). */
export const diffCommand: Command = {
  help: HELP,
  async run(argv, { io, out }) {
    const { values, positionals } = parseArguments('diff', argv, {
      format: createChoiceOption('text', 'json', 'md'),
      'fail-on': createChoiceOption('widened', 'any'),
      ...INPUT_FORMAT_OPTION,
    });
    const [olderFile, newerFile, ...extraFiles] = positionals;
    if (olderFile === undefined || newerFile === undefined || extraFiles.length > 0) {
      throw new UsageError('two files are compared: specify OLD and NEW');
    }
    if (olderFile === '-' && newerFile === '-') {
      throw new UsageError('standard input can be read once; specify - once');
    }
    const readFileRecords = async (arg: string) => {
      const file = await resolveSingleFile([arg], 'compared on each side');
      return readInput(file, io, values['input-format']);
    };
    const diff = await diffInventories(
      await readFileRecords(olderFile),
      await readFileRecords(newerFile),
    ).catch((error: unknown) => {
      if (!(error instanceof RepeatedIdError)) throw error;
      throw new UsageError(error.message, { helpArguments: 'lint', cause: error });
    });
    await out.writeAll(FORMATTERS[values.format ?? 'text'](diff));
    const { changed, added, removed } = diff;
    const failures = {
      none: false,
      widened: changed.some(({ isWidened }) => isWidened) || added.some(isPublic),
      any: changed.length + added.length + removed.length > 0,
    };
    return failures[values['fail-on'] ?? 'none'] ? 1 : 0;
  },
};

export type PropertyChange = { key: string; before: unknown; after: unknown };

export type RecordChange = {
  id: string;
  isWidened: boolean;
  /** The exposure first, then the properties of the newer record in order, then removed properties. */
  properties: PropertyChange[];
};

export type InventoryDiff = {
  /** In the order of the newer inventory, widened exposures first. */
  changed: RecordChange[];
  /** In the order of the newer inventory, public endpoints first. */
  added: EndpointRecord[];
  /** In the order of the older inventory. */
  removed: EndpointRecord[];
  unchanged: number;
};

/** Thrown if an inventory contains an ID twice. */
export class RepeatedIdError extends Error {
  override name = 'RepeatedIdError';
}

/**
 * Compares two inventories by the IDs of their records (Contract 5). Holds the older inventory, the IDs of the newer
 * one and the differences in memory.
 * @throws RepeatedIdError, and errors of the iterables.
 */
export async function diffInventories(
  olderRecords: AsyncIterable<PlacedRecord>,
  newerRecords: AsyncIterable<PlacedRecord>,
): Promise<InventoryDiff> {
  const unmatchedRecords = new Map<string, EndpointRecord>();
  for await (const record of readUnique('older', olderRecords, unmatchedRecords)) {
    unmatchedRecords.set(record.id, record);
  }
  const changed: RecordChange[] = [];
  const added: EndpointRecord[] = [];
  let unchanged = 0;
  const newerIds = new Set<string>();
  for await (const record of readUnique('newer', newerRecords, newerIds)) {
    newerIds.add(record.id);
    const before = unmatchedRecords.get(record.id);
    unmatchedRecords.delete(record.id);
    const change = before && compareRecords(before, record);
    if (before === undefined) added.push(record);
    else if (change) changed.push(change);
    else unchanged += 1;
  }
  return {
    changed: moveToFront(changed, ({ isWidened }) => isWidened),
    added: moveToFront(added, isPublic),
    removed: [...unmatchedRecords.values()],
    unchanged,
  };
}

/**
 * Yields records until an ID repeats.
 * @param seenIds IDs of the earlier records. The caller adds each ID.
 * @throws RepeatedIdError
 */
async function* readUnique(
  label: string,
  records: AsyncIterable<PlacedRecord>,
  seenIds: { has(id: string): boolean },
): AsyncGenerator<EndpointRecord> {
  for await (const { value, position } of records) {
    if (seenIds.has(value.id)) {
      const repeatedId = `${quoteId(value.id)} on line ${position.line}`;
      const message = `the ${label} inventory repeats the id ${repeatedId}; ids identify records`;
      throw new RepeatedIdError(message);
    }
    yield value;
  }
}

function compareRecords(before: EndpointRecord, after: EndpointRecord): RecordChange | null {
  const properties = [...new Set([...Object.keys(after), ...Object.keys(before)])]
    .map((key) => ({ key, before: getOwnValue(before, key), after: getOwnValue(after, key) }))
    .filter((property) => !isDeepStrictEqual(property.before, property.after));
  if (properties.length === 0) return null;
  return {
    id: after.id,
    isWidened: EXPOSURES.indexOf(after.exposure) < EXPOSURES.indexOf(before.exposure),
    properties: moveToFront(properties, ({ key }) => key === 'exposure'),
  };
}

function getOwnValue(record: EndpointRecord, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

function isPublic({ exposure }: EndpointRecord): boolean {
  return exposure === 'public';
}

function moveToFront<T>(values: readonly T[], isFirst: (value: T) => boolean): T[] {
  return [...values.filter(isFirst), ...values.filter((value) => !isFirst(value))];
}

/** Difference formatters. All of them mask URL credentials. */
const FORMATTERS = {
  *json({ changed, added, removed, unchanged }: InventoryDiff): Generator<string> {
    yield '{\n  "changed": ';
    yield* formatJsonList(Iterator.from(changed).map(maskChange), '  ');
    yield ',\n  "added": ';
    yield* formatJsonList(Iterator.from(added).map(maskRecord), '  ');
    yield ',\n  "removed": ';
    yield* formatJsonList(Iterator.from(removed).map(maskRecord), '  ');
    yield `,\n  "unchanged": ${unchanged}\n}\n`;
  },
  *text(diff: InventoryDiff): Generator<string> {
    for (const { kind, id, details } of listDifferences(diff)) {
      for (const [index, detail] of details.entries()) {
        // The first detail of a widened record is its exposure.
        const label = kind === 'widened' && index > 0 ? 'changed' : kind.padEnd(7);
        yield `${escapeInvisible(`${label} ${JSON.stringify(maskId(id))} ${detail}`)}\n`;
      }
    }
    yield `${summarize(diff)}\n`;
  },
  *md(diff: InventoryDiff): Generator<string> {
    let separator = '';
    for (const { kind, id, details } of listDifferences(diff)) {
      if (separator === '') yield '| | record | |\n| --- | --- | --- |\n';
      separator = '\n';
      const label = kind === 'widened' ? '**exposure widened**' : kind;
      const detailCell = details.map((detail) => formatMarkdownCell(detail)).join('<br>');
      yield `| ${label} | ${formatMarkdownCell(id, maskId)} | ${detailCell} |\n`;
    }
    yield `${separator}${summarize(diff)}\n`;
  },
};

function* listDifferences({ changed, added, removed }: InventoryDiff) {
  for (const { id, isWidened, properties } of changed) {
    yield { kind: isWidened ? 'widened' : 'changed', id, details: properties.map(describeChange) };
  }
  for (const [kind, records] of Object.entries({ added, removed })) {
    for (const { id, name, exposure } of records) {
      yield { kind, id, details: [`${maskCredentials(name)} (${exposure})`] };
    }
  }
}

function maskChange({ id, isWidened, properties }: RecordChange): unknown {
  return {
    id: maskId(id),
    isWidened,
    properties: properties.map((change) => ({
      key: maskCredentials(change.key),
      before: maskValue(change.before),
      after: maskValue(change.after),
      ...(hasOtherCredentials(change) && { withOtherCredentials: true }),
    })),
  };
}

/** Returns whether only masked credentials differ. */
function hasOtherCredentials({ before, after }: PropertyChange): boolean {
  const maskedAfter = formatMasked(after);
  return maskedAfter !== JSON.stringify(after) && formatMasked(before) === maskedAfter;
}

function summarize({ changed, added, removed, unchanged }: InventoryDiff): string {
  const widenedCount = changed.filter(({ isWidened }) => isWidened).length;
  const widenedNote = widenedCount === 0 ? '' : ` (${widenedCount} with wider exposure)`;
  return `${formatCount(changed.length, 'record')} changed${widenedNote}, ${added.length} added, ${removed.length} removed, ${unchanged} unchanged`;
}

function describeChange(change: PropertyChange): string {
  const { before, after } = change;
  const key = maskCredentials(change.key);
  const format = (value: unknown) =>
    typeof value === 'string' ? maskCredentials(value) : formatMasked(value);
  if (before === undefined) return `${key}: ${format(after)} added`;
  if (after === undefined) return `${key}: ${format(before)} removed`;
  if (hasOtherCredentials(change)) return `${key}: ${format(after)}, with other credentials`;
  const [formattedBefore, formattedAfter] = [format(before), format(after)];
  if (formattedBefore !== formattedAfter) return `${key}: ${formattedBefore} → ${formattedAfter}`;
  // JSON quotes distinguish the string "1" from the number 1.
  return `${key}: ${formatMasked(before)} → ${formatMasked(after)}`;
}

function formatMasked(value: unknown): string {
  return JSON.stringify(maskValue(value));
}
