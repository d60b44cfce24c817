import type { Static, TObject, TProperties } from 'typebox';
import type { Access } from '../access/guards.ts';

/**
 * A message of the server, as clients are told of it: what the types of the code and the AsyncAPI document
 * are made from. Nothing that is sent is held against it at run time.
 */
export type ServerMessage<
  Name extends string = string,
  Members extends TProperties = TProperties,
> = {
  readonly type: Name;
  readonly description: string;
  /** Beside its type and the `id` that it repeats; those of an event also beside its place. */
  readonly members: Members;
  readonly example: object;
};

/** A message of the server as it is sent. */
export type FrameOf<Message extends ServerMessage> =
  Message extends ServerMessage<infer Name, infer Members>
    ? { type: Name } & Static<TObject<Members>>
    : never;

/** Defines a message of the server; its example is one of its members. */
export function serverMessage<const Name extends string, Members extends TProperties>(
  definition: ServerMessage<Name, Members> & { example: Static<TObject<Members>> },
): ServerMessage<Name, Members> {
  return definition;
}

/** A message of clients: who may send it, what it holds, and what it is answered with. */
export type ClientMessage<
  Who extends Access = Access,
  Members extends TProperties = TProperties,
  Answer extends ServerMessage = ServerMessage,
> = {
  readonly access: Who;
  readonly description: string;
  /** Beside its type and `id`. */
  readonly members: Members;
  /** Beside `error`; events that repeat its `id` are among them. */
  readonly answers: readonly Answer[];
  readonly example: object;
};

/** Defines a message of clients; its example is one of its members. */
export function clientMessage<
  const Who extends Access,
  Members extends TProperties,
  Answer extends ServerMessage,
>(
  definition: ClientMessage<Who, Members, Answer> & { example: Static<TObject<Members>> },
): ClientMessage<Who, Members, Answer> {
  return definition;
}
