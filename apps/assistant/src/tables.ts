import type { ColumnType, Generated } from 'kysely';

/** Timestamp with a default in the database. */
type DefaultedTimestamp = ColumnType<Date, Date | undefined, Date>;

/** Timestamp with a default in the database. It is null in some rows from an older system. */
type LooseTimestamp = ColumnType<Date | null, Date | undefined, Date>;

/** JSON, which is written as text and read as a value. */
type Json = ColumnType<unknown, string | undefined, string>;
type NullableJson = ColumnType<unknown, string | null | undefined, string | null>;

/** Identity column, which only the database sets. */
type Identity = ColumnType<number, never, never>;

/** Status of a turn that ended incomplete: cancelled by the user, failed, or cut off when its process or lease ends. */
export type IncompleteTurnStatus = 'cancelled' | 'failed' | 'cut';

/** Sign-in request of a terminal, which listens on `port` of 127.0.0.1. RFC 7636 §4.3, RFC 8252 §7.3. */
export type TerminalRequest = { port: number; state: string; code_challenge: string };

type Theme = 'light' | 'dark' | 'auto';
/** Role of a member of a board: viewers read, decide and comment, editors change items, the owner manages members. */
export type BoardRole = 'owner' | 'editor' | 'viewer';

export type BoardVerdict = 'yes' | 'maybe' | 'no';

export type TurnStatus = 'running' | 'completed' | IncompleteTurnStatus;

/** Tables of the assistant. Specification 000, Resources and their fields; Contract 3, Tables. */
export type Tables = {
  svc_users: {
    id: string;
    email: string;
    display_name: string | null;
    role: Generated<string>;
    permissions: Generated<string>;
    created_at: DefaultedTimestamp;
    updated_at: DefaultedTimestamp;
    access_generation: Generated<number>;
  };
  user_auth_sessions: {
    id: string;
    user_id: string;
    access_token_enc: string;
    refresh_token_enc: string;
    expires_at: Date | null;
    created_at: DefaultedTimestamp;
    last_used_at: DefaultedTimestamp;
    token_version: Generated<number>;
    refresh_lease_until: Date | null;
    user_checked_at: Date | null;
    checked_generation: number | null;
    user_agent: string | null;
    address: string | null;
    /** `sid` of the ID token; null if the token has no `sid`. */
    provider_session_id: string | null;
    id_token_enc: string | null;
  };
  token_revocations: {
    id: Identity;
    session_id: string;
    user_id: string;
    access_token_enc: string;
    refresh_token_enc: string;
    attempts: ColumnType<number, number | undefined, number>;
    due_at: DefaultedTimestamp;
  };
  pending_logins: {
    state: string;
    code_verifier: string;
    platform: 'android' | 'terminal' | null;
    browser_id: string | null;
    earlier_session_id: string | null;
    terminal: ColumnType<TerminalRequest | null, string | null | undefined, never>;
    expires_at: Date;
  };
  terminal_sign_ins: {
    id: string;
    auth_session_id: string;
    browser_id: string;
    port: number;
    state: string;
    code_challenge: string;
    code_sha256: string | null;
    expires_at: Date;
  };
  invalidations: {
    id: Identity;
    user_id: string | null;
    kind: 'sessions' | 'access';
    /** Set if only one session at the provider ended. */
    provider_session_id: string | null;
    created_at: DefaultedTimestamp;
  };
  audit_log: {
    id: Identity;
    created_at: DefaultedTimestamp;
    action: string;
    actor_id: string | null;
    user_id: string | null;
    details: Json;
  };
  webhook_events: {
    id: Identity;
    received_at: DefaultedTimestamp;
    delivery_id: string | null;
    signature: 'hmac' | 'standard' | 'logout_token';
    event: string | null;
    user_id: string | null;
    outcome: 'applied' | 'ignored';
    sessions_ended: Generated<number>;
    body_sha256: string;
  };
  conversation_sessions: {
    id: Generated<string>;
    user_id: string | null;
    profile_id: string | null;
    name: string | null;
    pinned: ColumnType<boolean | null, boolean | undefined, boolean>;
    created_at: LooseTimestamp;
    last_active: LooseTimestamp;
    read_at: LooseTimestamp;
  };
  conversation_messages: {
    id: Generated<string>;
    session_id: string;
    role: string;
    content: string | null;
    created_at: LooseTimestamp;
    tool_calls: NullableJson;
    position: Generated<number>;
    turn_id: string | null;
    status: IncompleteTurnStatus | null;
    problem: NullableJson;
    client_message_id: string | null;
    /** Content for models, if it differs from the content for users. */
    kept: string | null;
    /** Whether the service sent the message without a question. */
    unasked: Generated<boolean>;
  };
  conversation_summaries: {
    session_id: string;
    summary: string;
    through_sent_us: number | null;
    through_position: number;
    revision: number;
    updated_at: DefaultedTimestamp;
  };
  chat_turns: {
    id: Generated<string>;
    session_id: string;
    user_id: string;
    /** Null if the turn sends a message without a question. */
    question_id: string | null;
    status: ColumnType<TurnStatus, TurnStatus | undefined, TurnStatus>;
    lease_until: Date;
    cancel_requested: Generated<boolean>;
    started_at: DefaultedTimestamp;
    finished_at: Date | null;
    position: Generated<number>;
  };
  chat_turn_events: {
    turn_id: string;
    last_seq: number;
    events: Json;
  };
  agent_steps: {
    id: Generated<string>;
    session_id: string;
    turn_id: string;
    kind: string;
    title: string;
    status: string;
    detail: string | null;
    started_at: DefaultedTimestamp;
    finished_at: Date | null;
    position: Generated<number>;
    changes: NullableJson;
    undone_at: Date | null;
  };
  session_files: {
    session_id: string;
    name: string;
    size_bytes: number;
    sha256: string;
    content: Buffer;
    media_type: string | null;
    created_at: DefaultedTimestamp;
    updated_at: DefaultedTimestamp;
  };
  memory_facts: {
    id: Generated<string>;
    user_id: string | null;
    category: string | null;
    key: string;
    value: string | null;
    source_session_id: string | null;
    created_at: LooseTimestamp;
    updated_at: LooseTimestamp;
  };
  memory_summaries: {
    id: Generated<string>;
    user_id: string | null;
    summary: string | null;
    updated_at: LooseTimestamp;
  };
  saved_searches: {
    id: Generated<string>;
    user_id: string;
    /** Null if the session was deleted, which pauses the search. */
    session_id: string | null;
    name: string;
    search: Json;
    every_minutes: number;
    paused: Generated<boolean>;
    created_at: DefaultedTimestamp;
    updated_at: DefaultedTimestamp;
    told_at: Date | null;
  };
  saved_search_hits: {
    search_id: string;
    listing_id: number;
    kind: 'new' | 'cheaper';
    old_price: number | null;
    listing: NullableJson;
    found_at: DefaultedTimestamp;
    told_at: Date | null;
  };
  user_settings: {
    user_id: string;
    /** Null if the browser decides. */
    language: 'uk' | 'ru' | 'en' | null;
    theme: ColumnType<Theme, Theme | undefined, Theme>;
    single_letter_keys: ColumnType<boolean, boolean | undefined, boolean>;
    /** Null if prices are shown in their own currency. */
    currency: string | null;
    updated_at: DefaultedTimestamp;
  };
  listing_marks: {
    user_id: string;
    listing_id: number;
    status: string | null;
    rating: number | null;
    note: string | null;
    tags: Generated<string[]>;
    hidden: Generated<boolean>;
    seen: Generated<boolean>;
    follow_up_on: ColumnType<string | null, string | null | undefined, string | null>;
    created_at: DefaultedTimestamp;
    updated_at: DefaultedTimestamp;
  };
  boards: {
    id: Generated<string>;
    name: string;
    created_at: DefaultedTimestamp;
    updated_at: DefaultedTimestamp;
  };
  board_members: {
    board_id: string;
    user_id: string;
    role: BoardRole;
    added_at: DefaultedTimestamp;
  };
  board_items: {
    board_id: string;
    listing_id: number;
    /** Sort key of the item in its board. */
    position: number;
    status: string | null;
    note: string | null;
    added_at: DefaultedTimestamp;
  };
  board_verdicts: {
    board_id: string;
    listing_id: number;
    user_id: string;
    verdict: BoardVerdict;
    decided_at: DefaultedTimestamp;
  };
  board_comments: {
    id: Generated<string>;
    board_id: string;
    listing_id: number;
    user_id: string;
    text: string;
    created_at: DefaultedTimestamp;
  };
  collector_feed: {
    id: Generated<boolean>;
    cursor: string | null;
    holder: string | null;
    lease_until: Date | null;
    caught_up_at: DefaultedTimestamp;
  };
};
