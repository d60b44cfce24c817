import { Type } from 'typebox';

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

const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: Type.Ref('Problem') } },
});

const DESCRIPTIONS = {
  400: 'The request could not be read',
  401: 'Not signed in',
  403: 'Not allowed',
  404: 'No such thing',
  409: 'In conflict with what is stored',
  413: 'The body is too large',
  415: 'The content type is not supported',
  422: 'A value breaks its rule',
  429: 'Too many requests',
  500: 'The service failed',
  502: 'What this service asked for failed',
  503: 'Something that this service needs does not answer',
} as const;

/** Response schemas for the error statuses that a route can answer; 500 is added to all. */
export function sharedProblems(...statuses: (keyof typeof DESCRIPTIONS)[]) {
  return Object.fromEntries(
    [...statuses, 500 as const].map((status) => [status, problem(DESCRIPTIONS[status])]),
  );
}
