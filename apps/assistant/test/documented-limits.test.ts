import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { MAX_MESSAGES, MAX_RECENT } from '../src/conversations/agent/context.ts';
import { divideWindow } from '../src/conversations/agent/window.ts';
import { summaryTime } from '../src/conversations/run-turn.ts';
import { MAX_FACTS } from '../src/memory/facts.ts';
import { LATEST_FACTS, MAX_WAITING, MAX_WORDS, SEARCH_MS } from '../src/memory/memory.ts';
import { MAX_FILE_BYTES, profileSchema } from '../src/profiles/profile-file.ts';
import { MAX_FILES } from '../src/profiles/profiles.ts';
import { SHOWN_LISTINGS } from '../src/saved-searches/digest-text.ts';
import { savedSearchBody } from '../src/saved-searches/routes.ts';
import { DEFAULT_EVERY_MINUTES, MAX_SAVED_SEARCHES } from '../src/saved-searches/saved-searches.ts';

/** A guide, each paragraph and each row of a table on a line, with single spaces. */
const pageOf = async (name: string) => {
  const text = await readFile(new URL(`../../../docs/${name}.md`, import.meta.url), 'utf8');
  return text.replaceAll(/(?<=[^\n|])\n(?=[^\n|])/g, ' ').replaceAll(/ +/g, ' ');
};

const written = (count: number) => count.toLocaleString('en');

const { share, maxMs: mostMs } = summaryTime;
assert.equal(share, 1 / 2, 'which the guide has in words');

/** A number that bounds a member of a schema, which the schema's type does not tell. */
const boundOf = ({ properties }: { properties: object }, member: string, bound: string): string =>
  written(Number(Reflect.get(Object(Reflect.get(properties, member)), bound)));
const minutes = (bound: string) => boundOf(savedSearchBody, 'every_minutes', bound);
const letters = (member: string) => boundOf(profileSchema([]), member, 'maxLength');

const limits: Record<string, readonly string[]> = {
  memory: [
    `| facts of a person | ${written(MAX_FACTS)}, `,
    `| words of a search | ${MAX_WORDS} |`,
    `| searches of a person at once | 1 in each process, and ${MAX_WAITING} waiting |`,
    `| time of a search in all users' facts | ${SEARCH_MS / 1000} s for `,
    `| facts in one request | the latest ${LATEST_FACTS} `,
    `| messages in one request | the latest ${written(MAX_MESSAGES)} `,
    `| messages beside a new summary | the latest ${written(MAX_RECENT)} `,
    `| names of files in one request | 1/${64_000 / divideWindow(64_000, 0).files} of `,
    `| time for summarizing before an answer | half of \`ANSWER_MAX_SECONDS\`, ${mostMs / 1000} s at most |`,
  ],
  'saved-searches': [
    `A user keeps at most ${MAX_SAVED_SEARCHES}.`,
    `: ${minutes('minimum')} to ${minutes('maximum')}, ${DEFAULT_EVERY_MINUTES} without it |`,
    `It shows the ${SHOWN_LISTINGS === 10 ? 'ten' : SHOWN_LISTINGS} newest finds`,
  ],
  profiles: [
    `A file has at most ${MAX_FILE_BYTES / 1024} KiB, a folder at most ${MAX_FILES} of them`,
    `name for people, up to ${letters('name')} characters`,
    `its purpose in a sentence, up to ${letters('description')} characters`,
    `the instructions for the model, up to ${letters('system')} characters`,
  ],
};

for (const [page, sentences] of Object.entries(limits)) {
  test(`docs/${page}.md has the limits as they are`, async () => {
    const text = await pageOf(page);
    for (const sentence of sentences) assert.ok(text.includes(sentence), sentence);
  });
}
