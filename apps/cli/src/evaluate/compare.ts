import { readFile } from 'node:fs/promises';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError, createFileError } from '../command.ts';
import { parseJson } from '../http.ts';
import { EVALUATED_FIELDS, type GoldenText, hashGoldenTexts } from './golden.ts';
import { ALL_FIELDS, countCorrect, createOutcome, type Outcome } from './score.ts';
import { computeMcNemarP } from './statistics.ts';

const savedModelSchema = Type.Object({
  model: Type.String(),
  failed: Type.Array(Type.Object({ text: Type.String() })),
  differences: Type.Array(
    Type.Object({
      text: Type.String(),
      fields: Type.Array(Type.Object({ field: Type.String() })),
    }),
  ),
});

type SavedModel = Static<typeof savedModelSchema>;

/** Output of `oselya evaluate --json`. The configured model is the first. */
const savedRunSchema = Type.Object({
  prompt_version: Type.String(),
  texts_hash: Type.String(),
  models: Type.Unsafe<[SavedModel, ...SavedModel[]]>(Type.Array(savedModelSchema, { minItems: 1 })),
});

/** An earlier run: its model and prompt, and the outcome of each text. */
export type SavedRun = { model: string; promptVersion: string; outcomes: readonly Outcome[] };

/** Comparison of the outcomes of one field in two runs. */
export type FieldComparison = {
  field: string;
  texts: number;
  correct: number;
  savedCorrect: number;
  /** Number of texts that only this run has right. */
  gained: number;
  /** Number of texts that only the saved run has right. */
  lost: number;
  p: number;
};

/**
 * Reads a run that `oselya evaluate --json` printed.
 * @throws CommandError if the file is not such a run, or the run had other texts.
 */
export async function readSavedRun(path: string, texts: readonly GoldenText[]): Promise<SavedRun> {
  const content = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw createFileError(path, 'read', cause);
  });
  const run = parseJson(content);
  if (!Value.Check(savedRunSchema, run))
    throw new CommandError(`${path} is not the output of oselya evaluate --json`);
  if (run.texts_hash !== hashGoldenTexts(texts))
    throw new CommandError(`${path} has other texts: compare runs of the same file and --limit`);
  if (new Set(texts.map(({ name }) => name)).size < texts.length)
    throw new CommandError('two texts have the same name, so runs cannot be compared');
  const [savedModel] = run.models;
  return {
    model: savedModel.model,
    promptVersion: run.prompt_version,
    outcomes: restoreOutcomes(texts, savedModel),
  };
}

function restoreOutcomes(
  texts: readonly GoldenText[],
  { failed, differences }: SavedModel,
): Outcome[] {
  const failedTexts = new Set(failed.map(({ text }) => text));
  const wrongFields = new Map(
    differences.map(({ text, fields }) => [text, fields.map(({ field }) => field)]),
  );
  return texts.map(({ name, expected }) =>
    createOutcome(expected, failedTexts.has(name) ? undefined : (wrongFields.get(name) ?? [])),
  );
}

/** Compares two runs on the same texts by field, and by texts with all fields right. */
export function compareOutcomes(
  outcomes: readonly Outcome[],
  savedOutcomes: readonly Outcome[],
): FieldComparison[] {
  return [...EVALUATED_FIELDS, ALL_FIELDS].map((field) => {
    const pairs = outcomes.flatMap((outcome, index) => {
      const [isCorrect, wasCorrect] = [outcome.get(field), savedOutcomes[index]?.get(field)];
      return isCorrect === undefined || wasCorrect === undefined ? [] : [{ isCorrect, wasCorrect }];
    });
    const gained = pairs.filter(({ isCorrect, wasCorrect }) => isCorrect && !wasCorrect).length;
    const lost = pairs.filter(({ isCorrect, wasCorrect }) => !isCorrect && wasCorrect).length;
    return {
      field,
      texts: pairs.length,
      correct: countCorrect(outcomes, field).correct,
      savedCorrect: countCorrect(savedOutcomes, field).correct,
      gained,
      lost,
      p: computeMcNemarP(gained, lost),
    };
  });
}
