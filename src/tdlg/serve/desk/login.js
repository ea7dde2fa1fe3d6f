const form = document.getElementById("login");
const wrong = document.getElementById("wrong");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  wrong.textContent = "";
  try {
    const answer = await fetch("login", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token: form.token.value.trim() }),
    });
    if (answer.ok) { location.replace("./"); return; }
    wrong.textContent = (await answer.json()).error.message;
  } catch {
    wrong.textContent = "The service does not answer.";
  }
  form.token.select();
});
