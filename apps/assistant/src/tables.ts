import type { ColumnType, Generated } from 'kysely';

/** A timestamp that the database sets unless it is given. */
type DefaultedTimestamp = ColumnType<Date, Date | undefined, Date>;

/** A timestamp that the database sets unless it is given, and that rows of an older system may lack. */
type LooseTimestamp = ColumnType<Date | null, Date | undefined, Date>;

/** Written as a JSON text, read as what it says. */
type Json = ColumnType<unknown, string | undefined, string>;

/** Given by the database. */
type Numbered = ColumnType<number, never, never>;

/** How a turn ended without a complete answer: by its user, by an error, or with its process. */
export type Unfinished = 'cancelled' | 'failed' | 'cut';

/** What a terminal asks to be signed in with. RFC 7636 §4.3, RFC 8252 §7.3. */
export type TerminalRequest = {
  /** Where it listens, on 127.0.0.1. */
  port: number;
  /** Its own, given back with the code. */
  state: string;
  /** Of the method S256. */
  code_challenge: string;
};

export type TurnStatus = 'running' | 'completed' | Unfinished;

/** The assistant's tables. Specification 000, Resources and their fields; Contract 3, Tables. */
export type Tables = {
  svc_users: {
    id: string;
    email: string;
    display_name: string | null;
    role: Generated<string>;
    /** A JSON array of permission slugs. */
    permissions: Generated<string>;
    created_at: DefaultedTimestamp;
    updated_at: DefaultedTimestamp;
    access_generation: Generated<number>;
  };
  user_auth_sessions: {
    /** The value of the session cookie. */
    id: string;
    user_id: string;
    access_token_enc: string;
    refresh_token_enc: string;
    /** Expiry of the access token; null where the provider did not say. */
    expires_at: Date | null;
    created_at: DefaultedTimestamp;
    last_used_at: DefaultedTimestamp;
    token_version: Generated<number>;
    refresh_lease_until: ColumnType<Date | null, Date | null | undefined, Date | null>;
    user_checked_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
    checked_generation: ColumnType<number | null, number | null | undefined, number | null>;
    user_agent: string | null;
    address: string | null;
    /** The `sid` of the ID token; null where the provider names none. */
    provider_session_id: ColumnType<string | null, string | null | undefined, string | null>;
    id_token_enc: ColumnType<string | null, string | null | undefined, string | null>;
  };
  token_revocations: {
    id: Numbered;
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
    /** What a terminal asked with; null for every other platform. */
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
    /** Null until the person has agreed. */
    code_sha256: string | null;
    expires_at: Date;
  };
  invalidations: {
    id: Numbered;
    user_id: string | null;
    kind: 'sessions' | 'access';
    /** Set where one session at the provider ended. */
    provider_session_id: ColumnType<string | null, string | null | undefined, never>;
    created_at: DefaultedTimestamp;
  };
  audit_log: {
    id: Numbered;
    created_at: DefaultedTimestamp;
    action: string;
    actor_id: string | null;
    user_id: string | null;
    details: Json;
  };
  webhook_events: {
    id: Numbered;
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
  };
  conversation_messages: {
    id: Generated<string>;
    session_id: string;
    role: string;
    content: string | null;
    created_at: LooseTimestamp;
    tool_calls: ColumnType<unknown, string | null | undefined, string | null>;
    position: Generated<number>;
    turn_id: ColumnType<string | null, string | null | undefined, string | null>;
    /** Null for what is complete. */
    status: ColumnType<Unfinished | null, Unfinished | null | undefined, Unfinished | null>;
    problem: ColumnType<unknown, string | null | undefined, string | null>;
    client_message_id: ColumnType<string | null, string | null | undefined, string | null>;
    /** What models are told instead of the content; null where that is what they are told. */
    kept: ColumnType<string | null, string | null | undefined, string | null>;
    /** Whether it came by itself, and answers no other message. */
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
    /** Null for a message that comes by itself. */
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
    changes: ColumnType<unknown, string | null | undefined, string | null>;
    undone_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
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
    /** Null where the session that it reported to was deleted, which pauses it. */
    session_id: string | null;
    name: string;
    search: Json;
    every_minutes: number;
    paused: Generated<boolean>;
    created_at: DefaultedTimestamp;
    updated_at: DefaultedTimestamp;
    told_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
  };
  saved_search_hits: {
    search_id: string;
    listing_id: number;
    kind: 'new' | 'cheaper';
    old_price: number | null;
    listing: ColumnType<unknown, string | null | undefined, string | null>;
    found_at: DefaultedTimestamp;
    told_at: ColumnType<Date | null, Date | null | undefined, Date | null>;
  };
  collector_feed: {
    id: Generated<boolean>;
    cursor: string | null;
    holder: string | null;
    lease_until: Date | null;
    caught_up_at: DefaultedTimestamp;
  };
};
