import type { AnswerEvent, MemoryChange, Message } from '@oselya/chat-client';

type ToolEvent = Extract<AnswerEvent, { type: 'tool.started' | 'tool.finished' }>;

/** Use of a tool in an answer. */
export type Step = {
  id: string;
  tool: string;
  /** Activity in the words of the server, for tools that the console does not know. */
  title: string;
  input: Readonly<Record<string, unknown>>;
  status: 'running' | 'done' | 'failed';
  changes: readonly MemoryChange[];
  /** Listings that the tool read, best first. */
  listingIds: readonly number[];
  /** State of an undo; undefined if the console does not know the step's ID, as in stored answers. */
  undo?: 'possible' | 'running' | 'done' | 'failed';
};

/** Returns the steps after an event of a tool. */
export function applyToolEvent(steps: readonly Step[], { type, tool }: ToolEvent): Step[] {
  const { step_id: id, name, title } = tool;
  if (type === 'tool.started') {
    const { input } = tool as { input?: unknown };
    return [
      ...steps.filter((step) => step.id !== id),
      {
        id,
        tool: name,
        title,
        input: asRecord(input),
        status: 'running',
        changes: [],
        listingIds: [],
      },
    ];
  }
  const finished: Partial<Step> = {
    status: tool.status,
    changes: tool.changes,
    listingIds: tool.listing_ids ?? [],
    ...(tool.changes.length > 0 && { undo: 'possible' as const }),
  };
  const started = steps.find((step) => step.id === id);
  const base = { id, tool: name, title, input: {}, changes: [], listingIds: [] };
  const step: Step = { ...base, status: 'done', ...started, ...finished };
  return started === undefined
    ? [...steps, step]
    : steps.map((other) => (other.id === id ? step : other));
}

/** Reads the steps of a stored answer. Members that a later version writes differently are left out. */
export function readStoredSteps({ id: messageId, tool_calls: calls }: Message): Step[] {
  if (!Array.isArray(calls)) return [];
  return calls.map((value: unknown, index) => {
    const { name, input, output } = asRecord(value);
    const result = parseRecord(output);
    const { listing_ids: ids, listing_id: id } = result;
    const change = readChange(result);
    return {
      id: `${messageId}-${index}`,
      tool: String(name),
      title: String(name),
      input: asRecord(input),
      status: 'error' in result ? 'failed' : 'done',
      changes: change === undefined ? [] : [change],
      listingIds: [ids ?? id ?? []].flat().filter((item) => Number.isSafeInteger(item)) as number[],
    };
  });
}

function readChange({ remembered, forgotten }: Record<string, unknown>): MemoryChange | undefined {
  const fact = asRecord(remembered ?? forgotten);
  const { category, key, value } = fact;
  if (typeof category !== 'string' || typeof key !== 'string') return undefined;
  const text = typeof value === 'string' ? value : null;
  return remembered === undefined
    ? { category, key, value: null, previous: text }
    : { category, key, value: text, previous: null };
}

/** Returns the listings of an answer, each once, those of the last tool first. */
export function collectListingIds(steps: readonly Step[]): number[] {
  return [...new Set(steps.toReversed().flatMap(({ listingIds }) => listingIds))];
}

/** Filters of the tools that a search in the console has too, by the name of the tool's member. */
const SEARCH_MEMBERS = {
  query: 'q',
  deal_type: 'deal_type',
  city: 'city',
  district: 'district',
  region: 'region',
  property_type: 'property_type',
  price_min: 'price_min',
  price_max: 'price_max',
  currency: 'currency',
  rooms_min: 'rooms_min',
  rooms_max: 'rooms_max',
  area_min: 'area_min',
  area_max: 'area_max',
} as const;

/** Returns the address of the search that a step made; undefined for other steps. */
export function createSearchAddress({ tool, input }: Step): string | undefined {
  if (tool !== 'search_listings') return undefined;
  const params = new URLSearchParams();
  for (const [member, name] of Object.entries(SEARCH_MEMBERS)) {
    for (const value of [input[member] ?? []].flat()) params.append(name, writeValue(value));
  }
  return `/app/search?${params.toString()}`;
}

/** Writes a value of an input, which a model may have given any form. */
const writeValue = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '';

/** Returns the words and filters of a step in a few words. */
export function describeInput({ input }: Step): string {
  const { query, deal_type, city, district, region, property_type, currency, listing_id } = input;
  const parts = [
    ...[query, deal_type, property_type, city, district, region].flat(),
    formatRange(input, 'rooms', '×'),
    formatRange(input, 'price', currency === undefined ? '' : ` ${writeValue(currency)}`),
    formatRange(input, 'area', ' m²'),
    listing_id === undefined ? '' : `#${writeValue(listing_id)}`,
  ];
  return parts.filter((part) => part !== undefined && part !== '').join(' · ');
}

function formatRange(input: Step['input'], name: string, unit: string): string {
  const [min, max] = [input[`${name}_min`], input[`${name}_max`]].map((value) => writeValue(value));
  if (min === '' && max === '') return '';
  if (min === '') return `≤ ${max}${unit}`;
  return max === '' ? `≥ ${min}${unit}` : `${min === max ? '' : `${min}–`}${max}${unit}`;
}

function parseRecord(text: unknown): Record<string, unknown> {
  try {
    return asRecord(JSON.parse(String(text)));
  } catch {
    return {};
  }
}

const asRecord = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
