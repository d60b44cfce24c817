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

/** A resolved user, and the generation of cached access at that time: under another one the rights may differ. */
export type KnownUser = { user: User; generation: number };
