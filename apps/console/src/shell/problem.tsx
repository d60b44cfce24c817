import { Alert, Button, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconLock } from '@tabler/icons-react';
import { type ReactNode, useEffect, useState } from 'react';
import { RequestError } from '../api.ts';
import { useLanguage, useMessages } from '../i18n/language.tsx';
import { closeProblem, useProblems } from './problems.ts';
import classes from './shell.module.css';

/** Shows an error with its code and request, and a button that waits as long as the server asked. */
export function ProblemNotice({
  error,
  onRetry,
  onClose,
}: {
  error: unknown;
  onRetry?: () => void;
  onClose?: () => void;
}) {
  const { close, error: messages } = useMessages();
  const problem = error instanceof RequestError ? error.problem : undefined;
  const waitSeconds = useCountdown(error instanceof RequestError ? (error.retryAfter ?? 0) : 0);
  return (
    <Alert
      color="red"
      role="alert"
      icon={<IconAlertTriangle aria-hidden />}
      title={(problem && (messages.codes[problem.code ?? ''] ?? problem.title)) ?? messages.title}
      withCloseButton={onClose !== undefined}
      onClose={() => onClose?.()}
      closeButtonLabel={close}
    >
      <Stack gap="xs" align="start">
        <Text size="sm">{error instanceof RequestError ? error.message : messages.network}</Text>
        {problem?.request_id !== undefined && (
          <Text size="xs" c="dimmed">
            {problem.code} · {messages.request(problem.request_id)}
          </Text>
        )}
        {onRetry && (
          <Button size="xs" variant="default" disabled={waitSeconds > 0} onClick={onRetry}>
            {waitSeconds > 0 ? messages.retryIn(waitSeconds) : messages.retry}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

/** Says of when the data are, if the last request for them failed. */
export function StaleNotice({ error, loadedAt }: { error: unknown; loadedAt: number }) {
  const { language, messages } = useLanguage();
  if (error === null) return null;
  const time = new Date(loadedAt).toLocaleTimeString(language, { timeStyle: 'short' });
  return (
    <Text role="status" size="sm" c="dimmed">
      {messages.error.asOf(time)}
    </Text>
  );
}

/** Names the permission that the user lacks for a page. */
export function MissingPermission({ permission }: { permission: string }) {
  const { codes, missingPermission } = useMessages().error;
  return (
    <EmptyNotice icon={<IconLock size={40} stroke={1.3} />} title={codes['permission_missing']}>
      {missingPermission(permission)}
    </EmptyNotice>
  );
}

/** Shows in place of content why there is none. */
export function EmptyNotice({
  icon,
  title,
  children,
}: {
  icon: ReactNode;
  title: ReactNode;
  children?: ReactNode;
}) {
  return (
    <div className={classes.empty}>
      <span aria-hidden>{icon}</span>
      <h2>{title}</h2>
      <div>{children}</div>
    </div>
  );
}

/** Errors of actions, in a corner. */
export function ActionProblems() {
  return (
    <div className={classes.problems}>
      {useProblems().map(({ id, error }) => (
        <ProblemNotice key={id} error={error} onClose={() => closeProblem(id)} />
      ))}
    </div>
  );
}

function useCountdown(seconds: number): number {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    const endsAt = performance.now() + seconds * 1000;
    const update = () => {
      const rest = Math.max(0, Math.ceil((endsAt - performance.now()) / 1000));
      setLeft(rest);
      if (rest === 0) clearInterval(timer);
    };
    const timer = setInterval(update, 250);
    update();
    return () => clearInterval(timer);
  }, [seconds]);
  return left;
}
