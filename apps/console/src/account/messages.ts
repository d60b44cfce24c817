import { createPlural } from '../i18n/plural.ts';
import type { PartMessages } from '../i18n/part.ts';

const countEn = createPlural('en');
const countUk = createPlural('uk');
const countRu = createPlural('ru');

const en = {
  title: 'Account',
  roles: { user: 'User', admin: 'Administrator' },
  permissions: 'Permissions',
  settings: 'Settings',
  settingsText: 'They hold on all your devices.',
  language: 'Language',
  browserLanguage: 'As in the browser',
  theme: 'Theme',
  currency: 'Currency of prices',
  ownCurrency: 'As in the listing',
  letters: 'Single letters are keyboard shortcuts',
  signIns: 'Sign-ins',
  signInsText: 'Browsers and terminals that are signed in to your account.',
  current: 'This browser',
  lastUsed: (time: string) => `used ${time}`,
  since: (time: string) => `since ${time}`,
  unknownDevice: 'Unknown device',
  end: 'Sign out',
  data: 'Your data',
  export: 'Export',
  exportText: 'One JSON file with everything that is stored about you.',
  removeData: 'Delete my data',
  removeText:
    'Conversations with files, memory, saved searches, marks, boards and settings are deleted for good. Your account stays. Export the data first.',
  confirmLabel: (email: string) => `Write ${email} to confirm`,
  removed: (count: number) =>
    `${countEn(count, { one: '# entry', other: '# entries' })} deleted. Your account has no data now.`,
};

const uk: typeof en = {
  title: 'Профіль',
  roles: { user: 'Користувач', admin: 'Адміністратор' },
  permissions: 'Дозволи',
  settings: 'Налаштування',
  settingsText: 'Вони діють на всіх ваших пристроях.',
  language: 'Мова',
  browserLanguage: 'Як у браузері',
  theme: 'Тема',
  currency: 'Валюта цін',
  ownCurrency: 'Як в оголошенні',
  letters: 'Окремі літери — клавіші команд',
  signIns: 'Входи',
  signInsText: 'Браузери й термінали, у яких відкрито ваш обліковий запис.',
  current: 'Цей браузер',
  lastUsed: (time) => `використано ${time}`,
  since: (time) => `від ${time}`,
  unknownDevice: 'Невідомий пристрій',
  end: 'Завершити',
  data: 'Ваші дані',
  export: 'Експорт',
  exportText: 'Один файл JSON з усім, що про вас збережено.',
  removeData: 'Видалити мої дані',
  removeText:
    'Розмови з файлами, пам’ять, збережені пошуки, позначки, добірки та налаштування буде видалено назавжди. Обліковий запис залишиться. Спершу експортуйте дані.',
  confirmLabel: (email) => `Напишіть ${email}, щоб підтвердити`,
  removed: (count) =>
    `Видалено ${countUk(count, { one: '# запис', few: '# записи', other: '# записів' })}. В обліковому записі більше немає даних.`,
};

const ru: typeof en = {
  title: 'Профиль',
  roles: { user: 'Пользователь', admin: 'Администратор' },
  permissions: 'Разрешения',
  settings: 'Настройки',
  settingsText: 'Они действуют на всех ваших устройствах.',
  language: 'Язык',
  browserLanguage: 'Как в браузере',
  theme: 'Тема',
  currency: 'Валюта цен',
  ownCurrency: 'Как в объявлении',
  letters: 'Отдельные буквы — клавиши команд',
  signIns: 'Входы',
  signInsText: 'Браузеры и терминалы, в которых открыта ваша учётная запись.',
  current: 'Этот браузер',
  lastUsed: (time) => `использован ${time}`,
  since: (time) => `с ${time}`,
  unknownDevice: 'Неизвестное устройство',
  end: 'Завершить',
  data: 'Ваши данные',
  export: 'Экспорт',
  exportText: 'Один файл JSON со всем, что о вас сохранено.',
  removeData: 'Удалить мои данные',
  removeText:
    'Разговоры с файлами, память, сохранённые поиски, отметки, подборки и настройки будут удалены навсегда. Учётная запись останется. Сначала экспортируйте данные.',
  confirmLabel: (email) => `Напишите ${email}, чтобы подтвердить`,
  removed: (count) =>
    `Удалено ${countRu(count, { one: '# запись', few: '# записи', other: '# записей' })}. В учётной записи больше нет данных.`,
};

/** Texts of the page of the account. */
export const accountMessages = { en, uk, ru } satisfies PartMessages<typeof en>;
