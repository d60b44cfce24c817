import { type Static, Type } from 'typebox';

/** Specification 000, User record. */
export const role = Type.Union([Type.Literal('user'), Type.Literal('admin')]);

export type Role = Static<typeof role>;

/** Somebody who signs in, as the identity provider describes them. Specification 000, User record. */
export type User = {
  id: string;
  email: string;
  display_name: string | null;
  role: Role;
  permissions: string[];
};

/** A user as resolved, with the generation of cached access that held then: another one has other rights. */
export type KnownUser = { user: User; generation: number };
