/** Conversation sessions and their messages, as everybody else uses them. */

export { listHandler } from './list.ts';
export {
  listMessages,
  listOldestMessages,
  type Message,
  messageColumns,
  type MessagePage,
} from './messages.sql.ts';
export { type MessagePosition } from './message-positions.ts';
export { isOwnerWithin, isSessionWithin, lockSession, requireSession } from './ownership.sql.ts';
export {
  deleteSessionsOf,
  findSessions,
  listSessionsOf,
  nameUnnamed,
  SESSION_CHANNEL,
} from './repository.ts';
export { sessionRoutes } from './routes.ts';
export {
  exampleMessage,
  exampleSession,
  latestQuery,
  messageRef,
  MESSAGES_PAGE,
  presentMessage,
  presentSession,
  sessionChanges,
  sessionParams,
  sessionsAnswer,
  sessionsQuery,
  sharedSchemas,
  summaryRef,
} from './schemas.ts';
export { createSessions, type Sessions } from './service.ts';
