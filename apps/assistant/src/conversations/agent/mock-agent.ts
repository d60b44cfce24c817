import { type MockAgent, extractSearchCriteria, type Reply } from '@oselya/model';
import { shortenText } from '../../text.ts';
import { TOOLS } from '../tools/tools.ts';
import type { MockLanguage } from '../tools/tool.ts';
import { SUMMARY_PREFIX } from './summaries.ts';
import { TITLE_INSTRUCTIONS } from './title.ts';

const MOCK_NOTICE = {
  uk: 'Відповідає пробна модель: вона знає лише прості правила. Справжню модель вмикає MODEL_MODE=openai (docs/models.md).',
  ru: 'Отвечает пробная модель: она знает только простые правила. Настоящую модель включает MODEL_MODE=openai (docs/models.md).',
  en: 'The mock model answers: it knows simple rules only. MODEL_MODE=openai turns a real model on (docs/models.md).',
};
const HELP_TEXT = {
  uk: 'Напишіть, що шукаєте: місто, оренда чи купівля, скільки кімнат і який бюджет. Наприклад: «двокімнатна у Львові до 15000 грн».',
  ru: 'Напишите, что ищете: город, аренда или покупка, сколько комнат и какой бюджет. Например: «двухкомнатная во Львове до 15000 грн».',
  en: 'Say what you look for: the town, to rent or to buy, how many rooms, and your budget. For example: "two rooms in Lviv up to 15000 UAH".',
};
const FAILURE_TEXT = { uk: 'Не вдалося', ru: 'Не получилось', en: 'It failed' };

/**
 * Answers by the tools' mock rules: calls the first tool whose rule matches and formats its output. The first answer of
 * a conversation states that it comes from a mock. Titles and summaries repeat questions. Replies are deterministic.
 */
export const mockAgent: MockAgent = ({ system, messages, tools }): Reply => {
  const questionIndex = messages.findLastIndex(({ role }) => role === 'user');
  const text = messages[questionIndex]?.content ?? '';
  if (system.startsWith(TITLE_INSTRUCTIONS))
    return { text: shortenText(toOneLine(text), MAX_TITLE_LENGTH) };
  if (system.startsWith(SUMMARY_PREFIX)) return { text: createMockSummary(text) };
  const criteria = extractSearchCriteria(text);
  const language: MockLanguage =
    criteria.language === 'ru' || criteria.language === 'en' ? criteria.language : 'uk';
  const earlierMessages = messages.slice(0, questionIndex);
  const isFirstAnswer = earlierMessages.every(({ role }) => role !== 'user');
  const answer = (answerText: string): Reply => ({
    text: isFirstAnswer ? `${answerText}\n\n${MOCK_NOTICE[language]}` : answerText,
  });

  const results = messages.slice(questionIndex).flatMap((message) => {
    if (message.role !== 'tool') return [];
    const data = parseOutput(message.content);
    if (typeof data['error'] === 'string') return [`${FAILURE_TEXT[language]}: ${data['error']}.`];
    const tool = TOOLS.find(({ name }) => name === message.toolName);
    return [tool?.mock?.answer(data, language) ?? HELP_TEXT[language]];
  });
  if (results.length > 0) return answer(results.join('\n'));

  for (const { name, mock } of TOOLS) {
    const input = mock?.call({ text, criteria, language, system, earlierMessages });
    if (typeof input === 'string') return answer(input);
    if (input === undefined) continue;
    if (!tools.includes(name)) break;
    // A deterministic ID keeps answers reproducible.
    return { toolCalls: [{ id: `call-${questionIndex}-${name}`, name, input }] };
  }
  return answer(HELP_TEXT[language]);
};

/** Parses tool output. Returns an empty object for truncated output, because it is invalid JSON. */
function parseOutput(content: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(content) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

const MAX_TITLE_LENGTH = 47;
const MAX_SUMMARY_LINES = 20;
const MAX_LINE_LENGTH = 80;

const toOneLine = (text: string) => text.replace(/\s+/gu, ' ').trim();

/** Creates a summary of the user's latest messages, one per line. */
function createMockSummary(data: string): string {
  const { summary_so_far: previousSummary, messages } = JSON.parse(data) as {
    summary_so_far: string;
    messages: { role: string; text: string }[];
  };
  const lines = messages
    .filter(({ role }) => role === 'user')
    .map(({ text }) => `- ${toOneLine(text).slice(0, MAX_LINE_LENGTH)}`);
  const allLines = [...previousSummary.split('\n').filter(Boolean), ...lines];
  return allLines.slice(-MAX_SUMMARY_LINES).join('\n') || '-';
}
