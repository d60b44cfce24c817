import { simpleRule } from '../rule.ts';

/** Judges `lint_ignore` of a record; what it silences is known only after all other rules (lint/silence.ts). */
export const ignore = simpleRule('lint/ignore', 'warning', () => []);
