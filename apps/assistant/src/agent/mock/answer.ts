import { formatListingId, formatNumber, formatPrice } from '@oselya/kit';
import type { ChatMessage } from '@oselya/model';
import type { Phrases } from './phrases.ts';

/** A listing as tools give it; every member may be missing. */
type Listed = Readonly<Record<string, string | number | undefined>>;

/** Puts what the tools gave into words. */
export function answerFrom(
  results: readonly Extract<ChatMessage, { role: 'tool' }>[],
  say: Phrases,
): string {
  return results.map(({ toolName, content }) => describe(toolName, parse(content), say)).join('\n');
}

function describe(tool: string, result: Readonly<Record<string, unknown>>, say: Phrases): string {
  if (typeof result['error'] === 'string') return say.failed(result['error']);
  switch (tool) {
    case 'search_listings':
    case 'similar_listings':
      return found(result, say);
    case 'get_listing':
      return `${say.details}\n${line(result as Listed, say)}\n${textOf(result['text'])}`;
    case 'remember_fact':
      return say.remembered(fact(result['remembered']));
    case 'forget_fact':
      return say.forgotten(fact(result['forgotten']));
    default:
      return `${say.endpoints}\n${endpoints(result['endpoints'])}`;
  }
}

function found(result: Readonly<Record<string, unknown>>, say: Phrases): string {
  const listings = (result['listings'] ?? []) as Listed[];
  if (listings.length === 0) return say.nothing;
  const total = textOf(result['total'] ?? listings.length);
  const lines = listings.map((listing, index) => `${index + 1}. ${line(listing, say)}`);
  return [say.found(listings.length, total), ...lines].join('\n');
}

function line(listing: Listed, say: Phrases): string {
  const { listing_id: id, title, price, currency, rooms, floor, city, district } = listing;
  const { area_total: area } = listing;
  const parts = [
    typeof price === 'number' ? formatPrice(price, textOf(currency)) : undefined,
    typeof rooms === 'number' ? say.rooms(rooms) : undefined,
    typeof area === 'number' ? `${formatNumber(area)} м²` : undefined,
    floor === undefined ? undefined : say.floor(String(floor)),
    [city, district].filter(Boolean).join(', '),
    typeof id === 'number' ? formatListingId(id) : undefined,
  ];
  return `${title ?? ''} — ${parts.filter(Boolean).join(', ')}`;
}

const textOf = (value: unknown) =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '';

function fact(value: unknown): string {
  const { key, value: said } = (value ?? {}) as { key?: string; value?: string };
  return `${key} — ${said}`;
}

function endpoints(value: unknown): string {
  const records = (value ?? []) as { id: string; exposure: string; url?: string }[];
  return records.map(({ id, exposure, url }) => `- ${id} (${exposure}) ${url ?? ''}`).join('\n');
}

/** Parses the result of a tool; a shortened result is no JSON and counts as empty. */
export function parse(content: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(content) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}
