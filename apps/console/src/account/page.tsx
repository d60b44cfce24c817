import '../cards/styles.ts';
import '@mantine/core/styles/InlineInput.layer.css';
import '@mantine/core/styles/Switch.layer.css';
import { Button, Group, NativeSelect, Stack, Switch, Text, TextInput, Title } from '@mantine/core';
import { IconDeviceLaptop, IconDownload } from '@tabler/icons-react';
import {
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
  useSuspenseQuery,
} from '@tanstack/react-query';
import { useState } from 'react';
import { request } from '../api.ts';
import cardClasses from '../cards/cards.module.css';
import { Confirm } from '../cards/dialogs.tsx';
import { LANGUAGE_NAMES, useLanguage } from '../i18n/language.tsx';
import { chooseLanguage, isLanguage, LANGUAGES } from '../i18n/messages.ts';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { useTitle } from '../shell/title.ts';
import { ProblemNotice } from '../shell/problem.tsx';
import { type User, userQuery } from '../start/session.ts';
import { type Settings, settingsQuery, useSaveSettings } from '../start/settings.ts';
import classes from './account.module.css';
import { describeDevice } from './device.ts';
import { accountMessages } from './messages.ts';
import { type SignIn, signInsQuery } from './queries.ts';

const CURRENCIES = ['UAH', 'USD', 'EUR', 'PLN'];

/** The user's account: settings, sign-ins and data. */
export function AccountPage() {
  const { data: user } = useSuspenseQuery(userQuery);
  const texts = usePartMessages(accountMessages);
  useTitle(texts.title);
  if (user === null) return null;
  return (
    <Stack maw={760} mx="auto" gap="xl">
      <header>
        <Title order={1} size="h2">
          {user.display_name || user.email}
        </Title>
        <Text c="dimmed">
          {user.email} · {texts.roles[user.role]}
        </Text>
        <details className={classes.permissions}>
          <summary>
            {texts.permissions} ({user.permissions.length})
          </summary>
          <ul>
            {user.permissions.map((permission) => (
              <li key={permission}>
                <code>{permission}</code>
              </li>
            ))}
          </ul>
        </details>
      </header>
      <SettingsSection />
      <SignInsSection />
      <DataSection user={user} />
    </Stack>
  );
}

function SettingsSection() {
  const texts = usePartMessages(accountMessages);
  const { messages, setLanguage } = useLanguage();
  const { data: settings, error, refetch } = useQuery(settingsQuery);
  const change = useSaveSettings();
  const { theme } = messages;
  return (
    <section aria-labelledby="settings">
      <Title order={2} size="h3" id="settings">
        {texts.settings}
      </Title>
      <Text size="sm" c="dimmed" mb="sm">
        {texts.settingsText}
      </Text>
      {error && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      {settings && (
        <Stack gap="sm">
          <div className={classes.settings}>
            <NativeSelect
              label={texts.language}
              value={settings.language ?? ''}
              data={[
                { value: '', label: texts.browserLanguage },
                ...LANGUAGES.map((value) => ({ value, label: LANGUAGE_NAMES[value] })),
              ]}
              onChange={({ currentTarget: { value } }) => {
                const language = isLanguage(value) ? value : null;
                change.mutate({ language });
                // The frame applies a chosen language only.
                if (language === null) setLanguage(chooseLanguage(navigator.languages));
              }}
            />
            <NativeSelect
              label={texts.theme}
              value={settings.theme}
              data={(['auto', 'light', 'dark'] as const).map((value) => ({
                value,
                label: theme[value],
              }))}
              onChange={({ currentTarget: { value } }) =>
                change.mutate({ theme: value as Settings['theme'] })
              }
            />
            <NativeSelect
              label={texts.currency}
              value={settings.currency ?? ''}
              data={[{ value: '', label: texts.ownCurrency }, ...CURRENCIES]}
              onChange={({ currentTarget: { value } }) =>
                change.mutate({ currency: value === '' ? null : value })
              }
            />
          </div>
          <Switch
            label={texts.letters}
            checked={settings.single_letter_keys}
            onChange={({ currentTarget: { checked } }) =>
              change.mutate({ single_letter_keys: checked })
            }
          />
        </Stack>
      )}
    </section>
  );
}

function SignInsSection() {
  const texts = usePartMessages(accountMessages);
  const { showMore } = usePartMessages(words);
  const { data, error, refetch, hasNextPage, fetchNextPage } = useInfiniteQuery(signInsQuery);
  return (
    <section aria-labelledby="sign-ins">
      <Title order={2} size="h3" id="sign-ins">
        {texts.signIns}
      </Title>
      <Text size="sm" c="dimmed" mb="sm">
        {texts.signInsText}
      </Text>
      {error && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      <ul className={classes.list}>
        {data?.pages
          .flatMap((part) => part.data)
          .map((signIn) => (
            <SignInRow key={signIn.id} signIn={signIn} />
          ))}
      </ul>
      {hasNextPage && (
        <Button variant="subtle" onClick={() => void fetchNextPage()}>
          {showMore}
        </Button>
      )}
    </section>
  );
}

function SignInRow({ signIn }: { signIn: SignIn }) {
  const texts = usePartMessages(accountMessages);
  const { language } = useLanguage();
  const queryClient = useQueryClient();
  const end = useMutation({
    mutationFn: () => request(`/auth/sessions/${signIn.id}`, { method: 'DELETE' }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: signInsQuery.queryKey }),
  });
  const format = (time: string) =>
    new Date(time).toLocaleString(language, { dateStyle: 'medium', timeStyle: 'short' });
  const { user_agent: userAgent, address, current } = signIn;
  const device = describeDevice(userAgent) ?? texts.unknownDevice;
  return (
    <li className={classes.signIn}>
      <IconDeviceLaptop size={22} stroke={1.5} aria-hidden />
      <div className={classes.device}>
        <b title={userAgent ?? undefined}>{device}</b>
        <small>
          {[
            address,
            texts.lastUsed(format(signIn.last_used_at)),
            texts.since(format(signIn.created_at)),
          ]
            .filter(Boolean)
            .join(' · ')}
        </small>
      </div>
      {current ? (
        <span className={cardClasses.badge}>{texts.current}</span>
      ) : (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`${texts.end}: ${device}`}
          loading={end.isPending}
          onClick={() => end.mutate()}
        >
          {texts.end}
        </Button>
      )}
    </li>
  );
}

function DataSection({ user }: { user: User }) {
  const texts = usePartMessages(accountMessages);
  const queryClient = useQueryClient();
  const [isConfirming, setIsConfirming] = useState(false);
  const [typed, setTyped] = useState('');
  const remove = useMutation({
    meta: { isHandled: true },
    mutationFn: () =>
      request<{ deleted: Record<string, number> }>('/me/data', { method: 'DELETE' }),
    onSuccess: () => {
      setIsConfirming(false);
      void queryClient.invalidateQueries();
    },
  });
  const removedCount = Object.values(remove.data?.deleted ?? {}).reduce((sum, n) => sum + n, 0);
  return (
    <section aria-labelledby="data">
      <Title order={2} size="h3" id="data">
        {texts.data}
      </Title>
      <Text size="sm" c="dimmed" mb="sm">
        {texts.exportText}
      </Text>
      <Group>
        <Button
          component="a"
          href="/me/export"
          download="oselya.json"
          variant="default"
          leftSection={<IconDownload size={18} aria-hidden />}
        >
          {texts.export}
        </Button>
        <Button color="red" variant="light" onClick={() => setIsConfirming(true)}>
          {texts.removeData}
        </Button>
      </Group>
      <Text role="status" size="sm" mt="sm">
        {remove.isSuccess && texts.removed(removedCount)}
      </Text>
      <Confirm
        isOpen={isConfirming}
        onClose={() => setIsConfirming(false)}
        title={texts.removeData}
        text={texts.removeText}
        action={texts.removeData}
        isDisabled={typed.trim().toLowerCase() !== user.email.toLowerCase()}
        onConfirm={() => remove.mutate()}
        isPending={remove.isPending}
        error={remove.error}
      >
        <TextInput
          mt="md"
          label={texts.confirmLabel(user.email)}
          value={typed}
          autoComplete="off"
          onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        />
      </Confirm>
    </section>
  );
}
