import { hash } from 'node:crypto';

/** The style of all pages, in light and dark, from 320 px of width. */
export const style = `
  :root { color-scheme: light dark; --text: #1c2024; --muted: #5b626a; --page: #f4f5f6;
    --card: #fff; --line: #c9ced3; --faint: #e6e9ec; --accent: #1f5fbf; --good: #1d6f42;
    --wait: #7a5300; --bad: #b3261e; }
  @media (prefers-color-scheme: dark) {
    :root { --text: #e8eaed; --muted: #a3abb3; --page: #14171a; --card: #1e2226;
      --line: #454c53; --faint: #2c3136; --accent: #8ab4f8; --good: #7fd1a0;
      --wait: #e6bd67; --bad: #f2a29b; }
  }
  * { box-sizing: border-box; }
  body { margin: 0; padding: 3rem 1rem; background: var(--page); color: var(--text);
    font: 1rem/1.5 system-ui, sans-serif; }
  main { max-width: 28rem; margin: 0 auto; padding: 1.5rem; background: var(--card);
    border: 1px solid var(--line); border-radius: 0.75rem; }
  h1 { margin: 0 0 0.5rem; font-size: 1.375rem; }
  p { margin: 0 0 1rem; color: var(--muted); overflow-wrap: anywhere; }
  p:last-child { margin-bottom: 0; }
  a { color: var(--accent); }
  button { min-height: 2.75rem; font: inherit; color: inherit; background: none;
    border: 1px solid var(--line); border-radius: 0.5rem; cursor: pointer; }
  button:hover:enabled { border-color: var(--accent); }
  button:disabled { cursor: not-allowed; opacity: 0.6; }
  :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }

  .picker button { display: block; width: 100%; margin: 0 0 0.75rem; padding: 0.75rem 1rem;
    text-align: start; }
  .picker span { display: block; color: var(--muted); font-size: 0.875rem; }
  .picker button.cancel { margin: 0; text-align: center; border-color: transparent;
    color: var(--muted); }

  .control { padding-block: 1.5rem; }
  .control main { max-width: 44rem; padding: 0; background: none; border: 0; }
  .control section { margin: 0 0 1rem; padding: 1.25rem; background: var(--card);
    border: 1px solid var(--line); border-radius: 0.75rem; }
  .control h2 { margin: 0; font-size: 1.125rem; line-height: 1.4; overflow-wrap: anywhere; }
  .control form { margin: 0; }
  .control code { font: 0.875em/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
  .control section button { padding: 0.5rem 1rem; }
  .title { display: flex; flex-wrap: wrap; gap: 0.25rem 0.75rem; align-items: center; }
  .badge { padding: 0 0.625rem; border: 1px solid; border-radius: 1rem; font-size: 0.8125rem; }
  .good { color: var(--good); }
  .wait { color: var(--wait); }
  .bad { color: var(--bad); }
  .actions { display: flex; flex-wrap: wrap; gap: 0.75rem; margin: 0 0 1rem; }
  .control button.main { color: var(--card); background: var(--accent); border-color: var(--accent); }
  button.grave { color: var(--bad); border-color: currentcolor; }
  .notice { margin: 0 0 1rem; padding: 0.875rem 1.25rem; background: var(--card);
    border: 1px solid var(--accent); border-inline-start-width: 0.375rem; border-radius: 0.5rem; }
  .notice:focus { outline: none; }
  .notice p { color: inherit; margin: 0; }
  dl { margin: 0 0 1rem; }
  dt { color: var(--muted); font-size: 0.875rem; }
  dd { margin: 0 0 0.5rem; }
  .slugs { display: flex; flex-wrap: wrap; gap: 0.25rem 0.5rem; }
  .slugs code { padding: 0 0.375rem; background: var(--faint); border-radius: 0.25rem; }
  details { padding-top: 0.75rem; border-top: 1px solid var(--faint); }
  summary { padding: 0.25rem 0; color: var(--accent); cursor: pointer; }
  fieldset { margin: 0.75rem 0 1rem; padding: 0.5rem 1rem 0.75rem; border: 1px solid var(--line);
    border-radius: 0.5rem; min-width: 0; }
  legend { padding: 0 0.375rem; font-size: 0.875rem; color: var(--muted); }
  .choices { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(16rem, 100%), 1fr));
    gap: 0 1rem; }
  label { display: flex; gap: 0.75rem; align-items: baseline; min-height: 2.75rem; padding: 0.375rem 0;
    cursor: pointer; }
  label small { display: block; color: var(--muted); font-size: 0.8125rem; }
  input[type="checkbox"] { flex: none; width: 1.125rem; height: 1.125rem; margin: 0;
    accent-color: var(--accent); translate: 0 0.1875rem; }
  .deliveries { margin: 0.75rem 0 0; padding: 0; list-style: none; }
  .deliveries li { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between;
    align-items: baseline; padding: 0.625rem 0; border-top: 1px solid var(--faint);
    overflow-wrap: anywhere; }
  .deliveries li:last-child { padding-bottom: 0; }
  .deliveries time, .about { color: var(--muted); font-size: 0.875rem; }
  .deliveries .outcome { flex: 0 0 100%; }
  .outcome { font-size: 0.9375rem; }
  .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
    white-space: nowrap; }
`;

/** The value of `style-src` that lets this style through, and nothing else. */
export const styleSource = `'sha256-${hash('sha256', style, 'base64')}'`;
