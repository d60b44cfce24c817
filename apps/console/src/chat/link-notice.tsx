import { Button } from '@mantine/core';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { usePartMessages } from '../i18n/part.ts';
import type { Chat } from './chat.ts';
import classes from './chat.module.css';
import { chatMessages } from './messages.ts';

/** Line about a connection that is not as it should be. */
export function LinkNotice({ chat }: { chat: Chat }) {
  const { link, ended, connectAgain } = usePartMessages(chatMessages);
  const state = useSyncExternalStore(chat.subscribe, chat.getState);
  const seconds = useSecondsUntil('endsAt' in state ? state.endsAt : 0);
  switch (state.type) {
    case 'connecting':
    case 'quiet':
      return (
        <p className={classes.link} data-delayed role="status">
          {link[state.type]}
        </p>
      );
    case 'waiting':
    case 'unavailable':
      if (state.type === 'unavailable' && seconds === 0) return null;
      return (
        <p className={classes.link}>
          {link[state.type](seconds)}
          {state.type === 'waiting' && (
            <Button size="compact-sm" variant="subtle" onClick={chat.reconnectNow}>
              {link.now}
            </Button>
          )}
        </p>
      );
    case 'connected':
      return null;
    default:
      return (
        <p className={classes.link} role="alert">
          {state.code === 'forbidden' ? ended.forbidden : ended.other}
          <Button size="compact-sm" variant="light" onClick={chat.restart}>
            {connectAgain}
          </Button>
        </p>
      );
  }
}

/** Counts the seconds until a time of `performance.now()`. */
function useSecondsUntil(endsAt: number): number {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return Math.max(0, Math.ceil((endsAt - now) / 1000));
}
