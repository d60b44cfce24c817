import { quoted } from '../../shorten.ts';
import { simpleRule } from '../rule.ts';

/**
 * What people write who name no authentication, or do not know of any, without case and the signs around it. Words that
 * say who may use an endpoint, such as `open` or `anonymous`, are none of them.
 */
export const SAYING_NOTHING: ReadonlySet<string> = new Set([
  'none',
  'no',
  'nothing',
  'nil',
  'n/a',
  'n.a',
  'na',
  'not applicable',
  'off',
  'disabled',
  'false',
  'no auth',
  'no authentication',
  'without auth',
  'without authentication',
  'unauthenticated',
  'unknown',
  'not known',
  'unclear',
  'null',
  'undefined',
  'tbd',
  'tba',
  'todo',
  'to do',
  'to be defined',
  'to be determined',
  'fixme',
  'немає',
  'нема',
  'ні',
  'без автентифікації',
  'невідомо',
]);

/** A longer text is no such word, whatever is in it. */
const MAX_CHARACTERS = 60;

/** What stands around a word, or for one, such as the brackets of `(none)`, `-`, `…` or `???`. */
const AROUND = /^[\s\p{P}<>~=]+|[\s\p{P}<>~=]+$/gu;

/** Finds public endpoints that name no authentication. */
export const publicWithoutAuth = simpleRule(
  'lint/public-without-auth',
  'error',
  ({ exposure, auth }) => {
    if (exposure !== 'public' || !saysNothing(auth ?? '')) return [];
    const found = auth === undefined ? 'it has no auth' : `its auth is ${quoted(auth)}`;
    return [
      {
        key: auth === undefined ? 'exposure' : 'auth',
        message: `the endpoint is public, but ${found}; say in auth who may use it and how, even if anybody may`,
      },
    ];
  },
);

function saysNothing(auth: string): boolean {
  const text = auth.trim();
  if (text.length > MAX_CHARACTERS) return false;
  const said = text
    .replaceAll(AROUND, '')
    .replaceAll(/[\s_-]+/g, ' ')
    .toLowerCase();
  return said === '' || SAYING_NOTHING.has(said);
}
