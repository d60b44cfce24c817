import { commonProblem, type Logger, problemBody, ProblemError } from '@oselya/kit';
import { isDatabaseOutage } from '@oselya/db';
import type { RawData } from 'ws';
import { checkAccess } from '../access/guards.ts';
import type { User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { FrameOf } from './definitions.ts';
import { type ClientFrame, idOf, type MessageId, readFrame, type ServerFrame } from './frames.ts';
import type { Answer, MessageType, MessageTypes, UserSocket } from './message-type.ts';
import type { refusal } from './messages.ts';
import type { SocketMetrics } from './metrics.ts';

/** Who sent a message, and the way back to them. */
export type Sender = {
  /** Nobody on an anonymous socket. Throws as `LiveUser.current` does. */
  user: () => Promise<User | undefined>;
  send: (frame: ServerFrame & { id?: MessageId | undefined }) => void;
  /** Their socket; not of an anonymous one. */
  socket: UserSocket | undefined;
  /** Of the handshake: error answers and log lines have it. */
  requestId: string;
  log: Pick<Logger, 'error' | 'debug'>;
};

/**
 * Makes the function that handles one message of a client: reads it, finds its type, holds the user
 * against its access, and answers with what its handler gives, or with `error`. Contract 3, WebSocket.
 * @returns The HTTP status of the error that was answered, if any. It never throws.
 */
export function createDispatch({
  types,
  metrics,
}: {
  types: MessageTypes;
  metrics: SocketMetrics;
}) {
  const byName = new Map(Object.entries(types));

  return async (sender: Sender, data: RawData, isBinary: boolean): Promise<number | undefined> => {
    let id: MessageId | undefined;
    let name = 'unknown';
    const answer: Answer = (frame) => sender.send({ ...frame, ...(id !== undefined && { id }) });
    try {
      const frame = readFrame(data, isBinary);
      id = idOf(frame);
      const type = byName.get(frame.type);
      if (type === undefined) throw unknownType(types);
      name = frame.type;
      await handle(type, frame, { sender, answer });
      metrics.countMessage(name, 'ok');
      return undefined;
    } catch (error) {
      const failure = toProblem(error);
      metrics.countMessage(name, failure.code);
      tell(sender.log, name, failure);
      const refused: FrameOf<typeof refusal> = {
        type: 'error',
        problem: problemBody(failure, sender.requestId),
      };
      answer(refused);
      return failure.status;
    }
  };
}

async function handle(
  type: MessageType,
  frame: ClientFrame,
  { sender, answer }: { sender: Sender; answer: Answer },
): Promise<void> {
  if (type.access === 'public') return type.handle(frame, { answer });
  const user = await sender.user();
  if (user === undefined || sender.socket === undefined) throw problem('not_signed_in');
  checkAccess(user, type.access);
  await type.handle(frame, { user, answer, socket: sender.socket });
}

function unknownType(types: MessageTypes): ProblemError {
  const known = Object.keys(types).join(', ');
  return problem('unknown_message_type', {
    detail: `Send a message of one of the types ${known}.`,
  });
}

function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  return commonProblem(isDatabaseOutage(error) ? 'unavailable' : 'internal_error', {
    cause: error,
  });
}

function tell(log: Sender['log'], type: string, failure: ProblemError): void {
  const { code, status, title } = failure;
  if (status >= 500) log.error({ err: failure.cause ?? failure, code, type }, title);
  else log.debug({ code, type, detail: failure.detail }, title);
}
