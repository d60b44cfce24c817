import { KNOWN_KEYS } from '../fields.ts';
import { simpleRule } from '../rule.ts';

/** Finds known properties that are empty or blank. */
export const blankField = simpleRule('lint/blank-field', 'warning', (fields) =>
  KNOWN_KEYS.filter((key) => typeof fields[key] === 'string' && fields[key].trim() === '').map(
    (key) => ({ key, message: `${key} is blank; say what it is, or leave the property out` }),
  ),
);
