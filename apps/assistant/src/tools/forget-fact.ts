import { Type } from 'typebox';
import { describeChange } from '../memory/facts.ts';
import type { Memory } from '../memory/memory.ts';
import { factName } from './remember-fact.ts';
import { defineTool } from './tool.ts';

/** Deletes a fact of the user's own. Contract 3, Profiles. */
export const forgetFact = (memory: Pick<Memory, 'deleteFact'>) =>
  defineTool({
    name: 'forget_fact',
    description: 'Forgets something that was remembered, when the person asks for it.',
    input: Type.Object(factName, { additionalProperties: false }),
    isData: false,
    changesMemory: true,
    permission: 'svc.memory.read_own',
    title: ({ category, key }) => `Forgetting ${category}/${key}`,
    async run({ category, key }, { user, signal, noteChange: note }) {
      const previous = await memory.deleteFact(user, { category, key }, { signal, note });
      const change = { category, key, value: null, previous };
      return {
        data: { forgotten: { category, key, value: previous } },
        summary: describeChange(change),
        changes: [change],
      };
    },
  });
