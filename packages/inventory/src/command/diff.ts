import { isDeepStrictEqual } from 'node:util';
import { maskCredentials, maskId, maskRecord, maskValue } from '../credentials.ts';
import type { PlacedRecord } from '../read/inventory-reader.ts';
import { type EndpointRecord, EXPOSURES } from '../record.ts';
import {
  formatMarkdownCell,
  formatCount,
  formatJsonList,
  quoteId,
  escapeInvisible,
} from '../text.ts';
import {
  parseChoice,
  type Command,
  INPUT_FORMAT_OPTION,
  parseInputFormat,
  parseArguments,
  UsageError,
} from './command.ts';
import { resolveSingleFile, readInput } from './files.ts';

const HELP = `Compares two inventories by the ids of their records: what changed, with widened exposures first, what
was added, and what was removed. OLD and NEW are as FILE is for \`validate\`; one of them may be - for
standard input.

Options:
  --format text|json|md             the output format (default: text)
  --fail-on widened|any             exit with 1 when an exposure was widened or an added endpoint is
                                    public, or (any) when anything differs
  --input-format json|jsonl|yaml    the format of both, whatever their names
  --help                            print this text

Exit status: 0 compared, 1 what --fail-on says, 2 unreadable, invalid or wrong use.
`;

const FORMATS = ['text', 'json', 'md'] as const;

/** `oselya inventory diff` (Contract 5). */
export const diffCommand: Command = {
  help: HELP,
  async run(argv, { io, out }) {
    const { values, positionals } = parseArguments('diff', argv, {
      format: { type: 'string' },
      'fail-on': { type: 'string' },
      ...INPUT_FORMAT_OPTION,
    });
    const [older, newer, ...more] = positionals;
    if (older === undefined || newer === undefined || more.length > 0) {
      throw new UsageError('two files are compared: give OLD and NEW');
    }
    if (older === '-' && newer === '-') {
      throw new UsageError('standard input can be read once; give - once');
    }
    const format = parseChoice('--format', FORMATS, values.format) ?? 'text';
    const failOn = parseChoice('--fail-on', ['widened', 'any'], values['fail-on']);
    const inputFormat = parseInputFormat(values);
    const read = async (arg: string) =>
      readInput(await resolveSingleFile([arg], 'compared on each side'), io, inputFormat);
    const found = await diffInventories(await read(older), await read(newer)).catch(
      (error: unknown) => {
        if (!(error instanceof RepeatedIdError)) throw error;
        throw new UsageError(error.message, { see: 'lint', cause: error });
      },
    );
    await out.writeAll(FORMATTERS[format](found));
    const { changed, added, removed } = found;
    const isWider =
      changed.some(({ isWidened }) => isWidened) ||
      added.some(({ exposure }) => exposure === 'public');
    const isDifferent = changed.length + added.length + removed.length > 0;
    return (failOn === 'widened' && isWider) || (failOn === 'any' && isDifferent) ? 1 : 0;
  },
};

/** A changed property. A value is undefined if the property is absent. */
export type PropertyChange = { key: string; before: unknown; after: unknown };

/** A record with different contents in the two inventories. */
export type RecordChange = {
  id: string;
  /** Whether the exposure of the endpoint is wider than before. */
  isWidened: boolean;
  /** The exposure first, then the properties of the newer record in order, then removed properties. */
  properties: PropertyChange[];
};

/** The differences between two inventories. */
export type InventoryDiff = {
  /** In the order of the newer inventory, widened exposures first. */
  changed: RecordChange[];
  /** In the order of the newer inventory, public ones first. */
  added: EndpointRecord[];
  /** In the order of the older inventory. */
  removed: EndpointRecord[];
  unchanged: number;
};

/** Thrown if an inventory contains an id twice. */
export class RepeatedIdError extends Error {
  override name = 'RepeatedIdError';
}

/**
 * Compares two inventories by the ids of their records (Contract 5). Holds the older inventory in memory.
 * @throws RepeatedIdError, and errors of the iterables.
 */
export async function diffInventories(
  older: AsyncIterable<PlacedRecord>,
  newer: AsyncIterable<PlacedRecord>,
): Promise<InventoryDiff> {
  const left = new Map<string, EndpointRecord>();
  for await (const { value, position } of older) {
    if (left.has(value.id)) throw createRepeatedIdError('older', value.id, position.line);
    left.set(value.id, value);
  }
  const seen = new Set<string>();
  const changed: RecordChange[] = [];
  const added: EndpointRecord[] = [];
  let unchanged = 0;
  for await (const { value, position } of newer) {
    if (seen.has(value.id)) throw createRepeatedIdError('newer', value.id, position.line);
    seen.add(value.id);
    const before = left.get(value.id);
    left.delete(value.id);
    const change = before && compare(before, value);
    if (before === undefined) added.push(value);
    else if (change) changed.push(change);
    else unchanged += 1;
  }
  return {
    changed: moveToFront(changed, ({ isWidened }) => isWidened),
    added: moveToFront(added, ({ exposure }) => exposure === 'public'),
    removed: [...left.values()],
    unchanged,
  };
}

function compare(before: EndpointRecord, after: EndpointRecord): RecordChange | null {
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

function moveToFront<T>(values: readonly T[], isFirst: (value: T) => boolean): T[] {
  return [...values.filter(isFirst), ...values.filter((value) => !isFirst(value))];
}

function createRepeatedIdError(which: string, id: string, line: number): RepeatedIdError {
  return new RepeatedIdError(
    `the ${which} inventory repeats the id ${quoteId(id)} on line ${line}; ids identify records`,
  );
}

/** All formats mask credentials in URLs. */
const FORMATTERS: Record<(typeof FORMATS)[number], (diff: InventoryDiff) => Iterable<string>> = {
  *json({ changed, added, removed, unchanged }) {
    yield '{\n  "changed": ';
    yield* formatJsonList(Iterator.from(changed).map(maskChange), '  ');
    yield ',\n  "added": ';
    yield* formatJsonList(Iterator.from(added).map(maskRecord), '  ');
    yield ',\n  "removed": ';
    yield* formatJsonList(Iterator.from(removed).map(maskRecord), '  ');
    yield `,\n  "unchanged": ${unchanged}\n}\n`;
  },
  *text(found) {
    for (const { id, isWidened, properties } of found.changed) {
      for (const change of properties) {
        const kind = isWidened && change.key === 'exposure' ? 'widened' : 'changed';
        yield lineOf(`${kind} ${JSON.stringify(maskId(id))} ${describe(change)}`);
      }
    }
    for (const [kind, records] of [
      ['added  ', found.added],
      ['removed', found.removed],
    ] as const) {
      for (const { id, name, exposure } of records) {
        const shownId = JSON.stringify(maskId(id));
        yield lineOf(`${kind} ${shownId} ${maskCredentials(name)} (${exposure})`);
      }
    }
    yield `${summary(found)}\n`;
  },
  *md(found) {
    let separator = '';
    for (const [kind, id, details] of rows(found)) {
      if (separator === '') yield '| | record | |\n| --- | --- | --- |\n';
      separator = '\n';
      const shown = details.map((detail) => formatMarkdownCell(detail)).join('<br>');
      yield `| ${kind} | ${formatMarkdownCell(id, maskId)} | ${shown} |\n`;
    }
    yield `${separator}${summary(found)}\n`;
  },
};

function lineOf(text: string): string {
  return `${escapeInvisible(text)}\n`;
}

function* rows({ changed, added, removed }: InventoryDiff): Generator<[string, string, string[]]> {
  for (const { id, isWidened, properties } of changed) {
    yield [isWidened ? '**exposure widened**' : 'changed', id, properties.map(describe)];
  }
  for (const { id, name, exposure } of added) yield ['added', id, [`${name} (${exposure})`]];
  for (const { id, name, exposure } of removed) yield ['removed', id, [`${name} (${exposure})`]];
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

/** Tells whether only masked credentials differ. */
function hasOtherCredentials({ before, after }: PropertyChange): boolean {
  const shown = asJson(after);
  return shown !== JSON.stringify(after) && asJson(before) === shown;
}

function summary({ changed, added, removed, unchanged }: InventoryDiff): string {
  const widened = changed.filter(({ isWidened }) => isWidened).length;
  const noted = widened === 0 ? '' : ` (${widened} with wider exposure)`;
  return `${formatCount(changed.length, 'record')} changed${noted}, ${added.length} added, ${removed.length} removed, ${unchanged} unchanged`;
}

function describe(change: PropertyChange): string {
  const { before, after } = change;
  const key = maskCredentials(change.key);
  if (before === undefined) return `${key}: ${written(after)} added`;
  if (after === undefined) return `${key}: ${written(before)} removed`;
  if (hasOtherCredentials(change)) return `${key}: ${written(after)}, with other credentials`;
  const [older, newer] = [written(before), written(after)];
  if (older !== newer) return `${key}: ${older} → ${newer}`;
  // JSON quotes distinguish the string "1" from the number 1.
  return `${key}: ${asJson(before)} → ${asJson(after)}`;
}

function written(value: unknown): string {
  return typeof value === 'string' ? maskCredentials(value) : asJson(value);
}

function asJson(value: unknown): string {
  return JSON.stringify(maskValue(value));
}
