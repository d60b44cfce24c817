import { Type } from 'typebox';
import { describeChange } from '../memory/facts.ts';
import type { Memory } from '../memory/memory.ts';
import { storableText } from '../schema.ts';
import { defineTool } from './tool.ts';

/** What names a fact. */
export const factName = {
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

/** Writes a fact of the user's own. Contract 3, Profiles. */
export const rememberFact = (memory: Pick<Memory, 'putFact'>) =>
  defineTool({
    name: 'remember_fact',
    description:
      'Remembers something that the person wants and that will hold next time, such as town, districts, budget, pets. The person sees it and can undo it. A fact of the same category and key is written over.',
    input: Type.Object(
      { ...factName, value: storableText({ minLength: 1, maxLength: 500 }) },
      { additionalProperties: false },
    ),
    isData: false,
    changesMemory: true,
    permission: 'svc.memory.read_own',
    title: ({ category, key, value }) => `Remembering ${category}/${key}: ${value}`,
    async run({ category, key, value }, { user, sessionId, signal, noteChange: note }) {
      const fact = { category, key, value, sourceSessionId: sessionId };
      const { previous = null } = await memory.putFact(user, fact, { signal, note });
      const change = { category, key, value, previous };
      return {
        data: { remembered: { category, key, value } },
        summary: describeChange(change),
        changes: previous === value ? [] : [change],
      };
    },
  });
