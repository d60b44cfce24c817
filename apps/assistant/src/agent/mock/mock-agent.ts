import { type ChatMessage, type MockAgent, readWish, type Reply, type Wish } from '@oselya/model';
import { SUMMARY_SYSTEM } from '../summarize.ts';
import { TITLE_SYSTEM } from '../title.ts';
import { answerFrom } from './answer.ts';
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
 * How the mock talks: by rules that read the last message, ask for the tool that serves it, and put what it
 * gave into words. Equal conversations get equal answers.
 */
export const mockAgent: MockAgent = ({ system, messages, tools }): Reply => {
  const asked = messages.findLastIndex(({ role }) => role === 'user');
  const text = messages[asked]?.content ?? '';
  if (system.startsWith(TITLE_SYSTEM)) return { text: titleOf(text) };
  if (system.startsWith(SUMMARY_SYSTEM)) return { text: summaryOf(text) };
  const wish = readWish(text);
  const say = phrases[answerLanguage(wish.language)];
  const results = messages.slice(asked).filter((message) => message.role === 'tool');
  if (results.length > 0) return { text: answerFrom(results, say) };

  const call = callFor(text, { wish, system, messages: messages.slice(0, asked) });
  if (call === undefined) return { text: FORGET.test(text) ? say.nothingToForget : say.help };
  if (!tools.includes(call.name)) return { text: say.help };
  // The same question gets the same id.
  return { toolCalls: [{ id: `call-${asked}-${call.name}`, ...call }] };
};

type Call = { name: string; input: object };

function callFor(
  text: string,
  context: { wish: Wish; system: string; messages: readonly ChatMessage[] },
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
  if (CHEAPER.test(text)) return cheaper(messages);
  if (wish.namesProperty || wish.city !== null) return search(text, wish);
  if (ENDPOINT.test(text))
    return { name: 'lookup_endpoint', input: { words: endpointWords(text) } };
  return undefined;
}

/** A wish for a property as a search: what filters say stands in filters. */
function search(text: string, wish: Wish): Call {
  const { deal_type, property_type, city, price, rooms, area_total } = wish;
  return {
    name: 'search_listings',
    input: {
      query: text.trim().slice(0, 512),
      ...(deal_type !== null && { deal_type }),
      ...(property_type !== null && { property_type }),
      ...(city !== null && { city }),
      ...(price !== null && { price_max: price }),
      ...(rooms !== null && { rooms_min: rooms, rooms_max: rooms }),
      ...(area_total !== null && { area_min: area_total }),
    },
  };
}

/** The last search of the conversation with a lower price. */
function cheaper(messages: readonly ChatMessage[]): Call | undefined {
  const searches = messages.flatMap((message) =>
    message.role === 'assistant' ? (message.toolCalls ?? []) : [],
  );
  const last = searches.findLast(({ name }) => name === 'search_listings');
  if (last === undefined) return undefined;
  const input = last.input as { price_max?: number };
  if (input.price_max === undefined) return { name: last.name, input };
  return { name: last.name, input: { ...input, price_max: input.price_max * CHEAPER_BY } };
}

function remember(said: string, wish: Wish): Call {
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
