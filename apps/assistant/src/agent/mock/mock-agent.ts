import {
  type ChatMessage,
  type MockAgent,
  readSearchCriteria,
  type Reply,
  type SearchCriteria,
} from '@oselya/model';
import { SUMMARY_SYSTEM } from '../summarize.ts';
import { TITLE_SYSTEM } from '../title.ts';
import { answerFrom, parse } from './answer.ts';
import { answerLanguage, phrases } from './phrases.ts';

const SIMILAR = /(?:схож\p{L}*|похож\p{L}*|like|similar)\D{0,20}#?(\d+)/iu;
const DETAILS =
  /(?:детальн\p{L}*|подробн\p{L}*|details|listing|оголошення|объявлени\p{L}*)\D{0,20}#?(\d+)/iu;
const CHEAPER = /дешев|cheaper/iu;
const REMEMBER = /^\s*(?:запам.?ятай|запомни|remember)[\s,:—-]*(?:що|что|that)?\s*(.+)$/isu;
const FORGET = /^\s*(?:забудь|forget)[\s,:—-]*(?:про|about)?\s*(.+)$/isu;
const ENDPOINT = /endpoint|ендпоінт|эндпоинт|сервіс|сервис|service|порт|port\b/iu;

/** How much less "cheaper" is. */
const CHEAPER_BY = 0.9;

/**
 * Answers by rules: they read the last message, ask for the tool that serves it, and put its result into words.
 * The first answer of a conversation says that the mock gives it. Equal conversations get equal answers.
 */
export const mockAgent: MockAgent = ({ system, messages, tools }): Reply => {
  const asked = messages.findLastIndex(({ role }) => role === 'user');
  const text = messages[asked]?.content ?? '';
  if (system.startsWith(TITLE_SYSTEM)) return { text: titleOf(text) };
  if (system.startsWith(SUMMARY_SYSTEM)) return { text: summaryOf(text) };
  const wish = readSearchCriteria(text);
  const say = phrases[answerLanguage(wish.language)];
  const before = messages.slice(0, asked);
  const isFirst = before.every(({ role }) => role !== 'user');
  const answer = (words: string): Reply => ({
    text: isFirst ? `${words}\n\n${say.isMock}` : words,
  });
  const results = messages.slice(asked).filter((message) => message.role === 'tool');
  if (results.length > 0) return answer(answerFrom(results, say));

  const call = callFor(text, { wish, system, messages: before });
  if (call === undefined) return answer(FORGET.test(text) ? say.nothingToForget : say.help);
  if (!tools.includes(call.name)) return answer(say.help);
  // The same question gets the same id.
  return { toolCalls: [{ id: `call-${asked}-${call.name}`, ...call }] };
};

type Call = { name: string; input: object };

function callFor(
  text: string,
  context: { wish: SearchCriteria; system: string; messages: readonly ChatMessage[] },
): Call | undefined {
  const { wish, system, messages } = context;
  const remembered = REMEMBER.exec(text)?.[1];
  if (remembered !== undefined) return remember(remembered, wish);
  const forgotten = FORGET.exec(text)?.[1];
  if (forgotten !== undefined) return forget(forgotten, system);
  const similar = SIMILAR.exec(text)?.[1];
  if (similar !== undefined)
    return { name: 'similar_listings', input: { listing_id: Number(similar) } };
  const listing = DETAILS.exec(text)?.[1];
  if (listing !== undefined) return { name: 'get_listing', input: { listing_id: Number(listing) } };
  const isEndpoint = ENDPOINT.test(text);
  const search = isEndpoint ? undefined : followUp(text, wish, messages);
  if (search !== undefined) return { name: 'search_listings', input: search };
  if (wish.namesProperty || wish.city !== null) {
    return { name: 'search_listings', input: { query: cutQuery(text), ...filtersOf(wish) } };
  }
  if (isEndpoint) return { name: 'lookup_endpoint', input: { words: endpointWords(text) } };
  return undefined;
}

type Search = { query: string; deal_type?: string; price_max?: number };

const cutQuery = (text: string): string => text.trim().slice(0, 512);

/** Converts a wish to filters of a search. */
function filtersOf({
  deal_type,
  property_type,
  city,
  price,
  rooms,
  area_total,
}: SearchCriteria): object {
  return {
    ...(deal_type !== null && { deal_type }),
    ...(property_type !== null && { property_type }),
    ...(city !== null && { city }),
    ...(price !== null && { price_max: price }),
    ...(rooms !== null && { rooms_min: rooms, rooms_max: rooms }),
    ...(area_total !== null && { area_min: area_total }),
  };
}

/**
 * Returns the last search of the conversation with the changes of a short message: "дешевше", "а в Києві?",
 * "трикімнатну". A message that names both a kind of property and a city is a new search.
 */
function followUp(
  text: string,
  wish: SearchCriteria,
  messages: readonly ChatMessage[],
): Search | undefined {
  const last = messages
    .flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
    .findLast(({ name }) => name === 'search_listings')?.input as Search | undefined;
  if (last === undefined || (wish.namesProperty && wish.city !== null)) return undefined;
  const changes = filtersOf(wish);
  if (!CHEAPER.test(text)) {
    if (Object.keys(changes).length === 0) return undefined;
    const { price_max: _, ...unpriced } = last;
    // A monthly rent is no budget to buy with.
    const kept = wish.deal_type === null || wish.deal_type === last.deal_type ? last : unpriced;
    return { ...kept, ...changes, query: cutQuery(`${last.query} ${text}`) };
  }
  const price = last.price_max ?? lowestPrice(messages);
  return { ...last, ...(price !== undefined && { price_max: price * CHEAPER_BY }), ...changes };
}

/** Returns the lowest price among the listings of the last search. */
function lowestPrice(messages: readonly ChatMessage[]): number | undefined {
  const found = messages.findLast(
    (message) => message.role === 'tool' && message.toolName === 'search_listings',
  );
  const { listings = [] } = parse(found?.content ?? '{}') as { listings?: { price?: number }[] };
  const prices = listings.flatMap(({ price }) => (price === undefined ? [] : [price]));
  return prices.length === 0 ? undefined : Math.min(...prices);
}

function remember(said: string, wish: SearchCriteria): Call {
  const key =
    wish.city !== null ? 'city' : wish.price !== null ? 'budget' : firstWord(said).toLowerCase();
  const value = said.trim().slice(0, 500);
  return { name: 'remember_fact', input: { category: 'wishes', key, value } };
}

/** The fact in the instructions that has a word of what is to be forgotten. */
function forget(said: string, system: string): Call | undefined {
  const words = said.toLowerCase().match(/\p{L}{3,}/gu) ?? [];
  for (const [, category, key, value = ''] of system.matchAll(
    /^- ([^/\n]+)\/([^:\n]+): (.*)$/gmu,
  )) {
    const fact = `${key} ${value}`.toLowerCase();
    // Endings differ, so words count by their beginnings.
    if (words.some((word) => fact.includes(word.slice(0, 4)))) {
      return { name: 'forget_fact', input: { category, key } };
    }
  }
  return undefined;
}

const firstWord = (text: string) => /\p{L}[\p{L}\p{N}]*/u.exec(text)?.[0]?.slice(0, 100) ?? 'note';

function endpointWords(text: string): string {
  const words = text.match(/[A-Za-z][\w-]{2,}/g)?.filter((word) => !ENDPOINT.test(word)) ?? [];
  return words.join(' ').slice(0, 200) || 'http';
}

function titleOf(text: string): string {
  const words = text.replace(/\s+/gu, ' ').trim();
  return words.length <= 48 ? words : `${words.slice(0, 47).trimEnd()}…`;
}

/** How many of what a person said last a summary keeps, and how much of each. */
const KEPT_LINES = 20;
const LINE_LENGTH = 80;

/** What the person said, a line each, the last of it where there is much. */
function summaryOf(data: string): string {
  const { summary_so_far: before, messages } = JSON.parse(data) as {
    summary_so_far: string;
    messages: { role: string; text: string }[];
  };
  const said = messages
    .filter(({ role }) => role === 'user')
    .map(({ text }) => `- ${text.replace(/\s+/gu, ' ').trim().slice(0, LINE_LENGTH)}`);
  return [...before.split('\n').filter(Boolean), ...said].slice(-KEPT_LINES).join('\n') || '-';
}
