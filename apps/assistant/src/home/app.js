const button = document.getElementById('sign-out');
const message = document.getElementById('message');

async function signOut() {
  button.disabled = true;
  try {
    const answer = await fetch('/auth/logout', { method: 'POST' });
    if (!answer.ok) throw new Error(`The server answered ${answer.status}`);
    location.replace('/');
  } catch {
    message.textContent = 'Signing out did not work. Try again.';
    button.disabled = false;
  }
}

button?.addEventListener('click', () => void signOut());
