import { readFileSync } from 'node:fs';

/** Instructions to a model, a file of their own under a version. */
export type Prompt = { version: string; text: string };

/**
 * Reads a prompt from the folder `prompts` beside the module that uses it.
 * @param version The file's name without `.md`. It is recorded with what was made by the prompt, so a
 *   prompt that is changed gets a new version.
 */
export function readPrompt(version: string, module: string): Prompt {
  return { version, text: readFileSync(new URL(`prompts/${version}.md`, module), 'utf8') };
}
