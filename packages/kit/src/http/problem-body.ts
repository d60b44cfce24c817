import { type Static, Type } from 'typebox';
import type { ProblemError } from '../problems.ts';

const MAX_LISTED_ERRORS = 50;

/** The body of every error answer: RFC 9457, with the platform's own members. Contract 2. */
export const problemSchema = Type.Object(
  {
    type: Type.String({ description: 'Where the error is described.' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    code: Type.String({ description: 'Stable; see docs/errors.md.' }),
    request_id: Type.String(),
    errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
  },
  { $id: 'Problem' },
);

/** What {@link problemSchema} describes. */
export type ProblemBody = Static<typeof problemSchema>;

/** A problem as it is answered, over HTTP and sockets alike. Contract 2. */
export function problemBody(
  { code, title, status, detail, errors, members }: ProblemError,
  requestId: string,
): ProblemBody {
  return {
    ...members,
    type: `urn:oselya:error:${code}`,
    title,
    status,
    detail,
    code,
    request_id: requestId,
    ...(errors && { errors: errors.slice(0, MAX_LISTED_ERRORS) }),
  };
}
