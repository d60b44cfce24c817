import { Type } from 'typebox';
import { describeChange } from '../../memory/facts.ts';
import { storableText } from '../../schema.ts';
import { defineTool, type MockRule, type MockQuestion } from './tool.ts';

const factKeySchemas = {
  category: storableText({
    minLength: 1,
    maxLength: 100,
    description: 'such as home, budget, people, way_to_work',
  }),
  key: storableText({
    minLength: 1,
    maxLength: 100,
    description: 'what it is about, such as district, most_rent, pets; the same for the same thing',
  }),
};

const REMEMBER_PATTERN = /^\s*(?:запам.?ятай|запомни|remember)[\s,:—-]*(?:що|что|that)?\s*(.+)$/isu;
const FORGET_PATTERN = /^\s*(?:забудь|forget)[\s,:—-]*(?:про|about)?\s*(.+)$/isu;

const REMEMBERED_TEXT = { uk: 'Запамʼятовано', ru: 'Запомнено', en: 'Remembered' };
const FORGOTTEN_TEXT = { uk: 'Забуто', ru: 'Забыто', en: 'Forgotten' };
const NOTHING_TO_FORGET_TEXT = {
  uk: 'Про це нічого не запамʼятовано.',
  ru: 'Об этом ничего не запомнено.',
  en: 'Nothing of that is remembered.',
};

const createFactAnswer =
  (member: string, texts: typeof REMEMBERED_TEXT): MockRule['answer'] =>
  (data, language) => {
    const { key, value } = (data[member] ?? {}) as { key?: string; value?: string };
    return `${texts[language]}: ${key} — ${value}.`;
  };

/** Tool that writes a fact about the user. */
export const rememberFact = defineTool({
  name: 'remember_fact',
  description:
    'Remembers something that the person wants and that will hold next time, such as town, districts, budget, pets. The person sees it and can undo it. A fact of the same category and key is written over.',
  input: Type.Object(
    { ...factKeySchemas, value: storableText({ minLength: 1, maxLength: 500 }) },
    { additionalProperties: false },
  ),
  hasThirdPartyText: false,
  canChangeMemory: true,
  permission: 'svc.memory.read_own',
  title: ({ category, key, value }) => `Remembering ${category}/${key}: ${value}`,
  async run({ category, key, value }, { memory, user, sessionId, signal, recordChange }) {
    const fact = { category, key, value, sourceSessionId: sessionId };
    const { previous = null } = await memory.putFact(user, fact, { signal, recordChange });
    const change = { category, key, value, previous };
    return {
      data: { remembered: { category, key, value } },
      summary: describeChange(change),
      changes: previous === value ? [] : [change],
    };
  },
  mock: {
    call({ text, criteria: { city, price } }) {
      const statement = REMEMBER_PATTERN.exec(text)?.[1];
      if (statement === undefined) return undefined;
      const word =
        /\p{L}[\p{L}\p{N}]*/u.exec(statement)?.[0]?.slice(0, 100).toLowerCase() ?? 'note';
      const key = city !== null ? 'city' : price !== null ? 'budget' : word;
      return { category: 'wishes', key, value: statement.trim().slice(0, 500) };
    },
    answer: createFactAnswer('remembered', REMEMBERED_TEXT),
  },
});

/** Tool that deletes a fact about the user. */
export const forgetFact = defineTool({
  name: 'forget_fact',
  description: 'Forgets something that was remembered, when the person asks for it.',
  input: Type.Object(factKeySchemas, { additionalProperties: false }),
  hasThirdPartyText: false,
  canChangeMemory: true,
  permission: 'svc.memory.read_own',
  title: ({ category, key }) => `Forgetting ${category}/${key}`,
  async run({ category, key }, { memory, user, signal, recordChange }) {
    const previous = await memory.deleteFact(user, { category, key }, { signal, recordChange });
    const change = { category, key, value: null, previous };
    return {
      data: { forgotten: { category, key, value: previous } },
      summary: describeChange(change),
      changes: [change],
    };
  },
  mock: {
    call({ text, system, language }: MockQuestion) {
      const statement = FORGET_PATTERN.exec(text)?.[1];
      if (statement === undefined) return undefined;
      const words = statement.toLowerCase().match(/\p{L}{3,}/gu) ?? [];
      for (const [, category, key, value] of system.matchAll(/^- ([^/\n]+)\/([^:\n]+): (.*)$/gmu)) {
        const fact = `${key} ${value}`.toLowerCase();
        // Compare only the beginnings, because inflected words differ in their endings.
        if (words.some((word) => fact.includes(word.slice(0, 4)))) return { category, key };
      }
      return NOTHING_TO_FORGET_TEXT[language];
    },
    answer: createFactAnswer('forgotten', FORGOTTEN_TEXT),
  },
});
